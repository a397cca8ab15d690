import { z } from "zod";
import { durationMsOf, formatDuration } from "./time.ts";

/** A duration in a config file, `10s`, `90d`, `1h30m`; parsed to milliseconds. */
export function durationSchema(description: string, bounds: { minMs?: number; maxMs?: number } = {}) {
  const { minMs = 0, maxMs = Number.MAX_SAFE_INTEGER } = bounds;
  return z
    .string()
    .check((check) => {
      const ms = durationMsOf(check.value);
      if (ms === undefined) complain(check, "write a duration such as 30s, 10m, 24h or 90d");
      else if (ms < minMs) complain(check, `at least ${formatDuration(minMs)}`);
      else if (ms > maxMs) complain(check, `at most ${formatDuration(maxMs)}`);
    })
    .transform((text) => durationMsOf(text)!)
    .meta({ description });
}

function complain<Value>(check: z.core.ParsePayload<Value>, message: string): void {
  check.issues.push({ code: "custom", message, input: check.value });
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

/** Bytes; undefined where it is no size. */
export function sizeOf(value: string | number): number | undefined {
  const match = typeof value === "string" ? /^(\d+(?:\.\d+)?)\s*(B|[KMGT]i?B)$/.exec(value) : null;
  if (typeof value === "string" && match === null) return undefined;
  const size = match === null ? Number(value) : Math.floor(Number(match[1]) * SIZES[match[2]!]!);
  return Number.isSafeInteger(size) && size >= 0 ? size : undefined;
}

/** A size in a config file, in bytes or as `64MB`, `1GiB`; parsed to bytes. */
export function sizeSchema(description: string, bounds: { min?: number; max?: number; why?: string } = {}) {
  const { min = 0, max = Number.MAX_SAFE_INTEGER, why } = bounds;
  return z
    .union([z.string(), z.number()])
    .check((check) => {
      const size = sizeOf(check.value);
      if (size === undefined) complain(check, "write a size such as 500KB, 64MB or 1GiB");
      else if (size < min) complain(check, `at least ${min} bytes${why ? `, ${why}` : ""}`);
      else if (size > max) complain(check, `at most ${max} bytes`);
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
