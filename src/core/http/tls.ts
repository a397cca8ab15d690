import { X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { z } from "zod";
import { PausedError } from "../errors.ts";
import type { tlsSchema } from "../schema.ts";

export type TlsConfig = z.output<typeof tlsSchema>;

/** Options of `tls.connect`, of undici's connector and of Node's https agent. */
export interface TlsOptions {
  readonly rejectUnauthorized: true;
  readonly minVersion: "TLSv1.2";
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly servername?: string;
}

/**
 * Every TLS connection of the program is opened with these. They are stated and not left to Node's defaults,
 * because NODE_TLS_REJECT_UNAUTHORIZED=0 would switch off verification.
 */
export const VERIFIED = { rejectUnauthorized: true, minVersion: "TLSv1.2" } as const;

/** The options with the config's files read. */
export async function readTls(tls: TlsConfig | undefined): Promise<TlsOptions> {
  return {
    ...VERIFIED,
    ...(tls?.ca && { ca: await readPem("ca", tls.ca) }),
    ...(tls?.cert && { cert: await readPem("cert", tls.cert) }),
    ...(tls?.key && { key: await readPem("key", tls.key) }),
    ...(tls?.serverName && { servername: tls.serverName }),
  };
}

async function readPem(field: string, path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (cause) {
    throw new PausedError(
      `The file of tls.${field}, ${path}, cannot be read.`,
      "Put the PEM file there, readable by this program, or correct the path.",
      { cause },
    );
  }
}

const CERTIFICATE_CODES =
  /^(CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|ERR_TLS_CERT|INVALID_CA$|HOSTNAME_MISMATCH$)/;

/** True for the error of a peer whose certificate was not accepted. */
export function isCertificateError(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && CERTIFICATE_CODES.test(code);
}

/** True for a peer's alert that it does not accept our certificate. */
export function isCertificateAlert(error: unknown): boolean {
  for (let at = error, depth = 0; at instanceof Error && depth < 4; at = at.cause, depth++)
    if (/ALERT.*(CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED)/.test(String((at as { code?: unknown }).code)))
      return true;
  return false;
}

/** A sentence about a client's certificate that has expired; empty where there is none or it is valid. */
export function expiryOf(tls: TlsOptions | undefined): string {
  if (tls?.cert === undefined) return "";
  try {
    const endMs = Date.parse(new X509Certificate(tls.cert).validTo);
    if (endMs >= Date.now()) return "";
    return ` The client's certificate in tls.cert expired on ${new Date(endMs).toISOString()}: put a renewed one and its key there.`;
  } catch {
    // The connection's own error says that it is no certificate.
    return "";
  }
}
