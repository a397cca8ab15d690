import { z } from "zod";
import { durationMsOf } from "./time.ts";

/** A duration in a config file, `10s`, `90d`, `1h30m`; parsed to milliseconds. */
export function durationSchema(description: string, bounds: { minMs?: number; maxMs?: number } = {}) {
  return z
    .string()
    .refine((text) => durationMsOf(text) !== undefined, {
      error: "write a duration such as 30s, 10m, 24h or 90d",
    })
    .refine((text) => (durationMsOf(text) ?? 0) >= (bounds.minMs ?? 0), {
      error: `at least ${bounds.minMs ?? 0} ms`,
    })
    .refine((text) => (durationMsOf(text) ?? 0) <= (bounds.maxMs ?? Number.MAX_SAFE_INTEGER), {
      error: `at most ${bounds.maxMs} ms`,
    })
    .transform((text) => durationMsOf(text)!)
    .meta({ description });
}

const SIZES: Readonly<Record<string, number>> = {
  B: 1,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
};

function sizeOf(value: string | number): number | undefined {
  if (typeof value === "number") return Number.isSafeInteger(value) && value >= 0 ? value : undefined;
  const match = /^(\d+(?:\.\d+)?)\s*(B|[KMGT]i?B)$/.exec(value);
  return match ? Math.floor(Number(match[1]) * SIZES[match[2]!]!) : undefined;
}

/** A size in a config file, in bytes or as `64MB`, `1GiB`; parsed to bytes. */
export function sizeSchema(description: string, bounds: { min?: number; max?: number } = {}) {
  return z
    .union([z.string(), z.number()])
    .refine((value) => sizeOf(value) !== undefined, { error: "write a size such as 500KB, 64MB or 1GiB" })
    .refine((value) => (sizeOf(value) ?? 0) >= (bounds.min ?? 0), {
      error: `at least ${bounds.min ?? 0} bytes`,
    })
    .refine((value) => (sizeOf(value) ?? 0) <= (bounds.max ?? Number.MAX_SAFE_INTEGER), {
      error: `at most ${bounds.max} bytes`,
    })
    .transform((value) => sizeOf(value)!)
    .meta({ description });
}

/** Where TLS needs more than the system's authorities. */
export const tlsSchema = z
  .strictObject({
    ca: z
      .string()
      .optional()
      .meta({ description: "A PEM file with the authorities to trust, instead of the system's." }),
    cert: z.string().optional().meta({ description: "A PEM file with the client's certificate." }),
    key: z.string().optional().meta({ description: "A PEM file with the client's private key." }),
    serverName: z
      .string()
      .optional()
      .meta({ description: "The name to verify the server's certificate against." }),
  })
  .meta({ description: "TLS settings; the server's certificate is always verified." });
