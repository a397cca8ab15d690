import { createHash, createHmac } from "node:crypto";
import type { AwsCredentials } from "./credentials.ts";

/**
 * AWS Signature Version 4. A signature is made in four steps: the canonical request, its hash in a string to
 * sign, a key derived from secret, day, region and service, and the HMAC of the string with that key.
 */
export interface ToSign {
  readonly method: string;
  readonly url: URL;
  /** In lower case; `host` is added. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | string;
  readonly region: string;
  readonly service: string;
  readonly credentials: AwsCredentials;
  readonly nowMs: number;
}

const ALGORITHM = "AWS4-HMAC-SHA256";

/** The headers of the request with its date, token and signature. */
export function awsSignedHeaders(request: ToSign): Record<string, string> {
  const { credentials } = request;
  const headers: Record<string, string> = {
    ...request.headers,
    "x-amz-date": stampOf(request.nowMs),
    "x-amz-content-sha256": sha256(request.body),
    ...(credentials.sessionToken && { "x-amz-security-token": credentials.sessionToken }),
  };
  const { names, signature } = signatureOf(request, headers, request.url.searchParams);
  headers.authorization = `${ALGORITHM} Credential=${credentials.accessKeyId}/${scopeOf(request)}, SignedHeaders=${names}, Signature=${signature}`;
  return headers;
}

/** An address that carries its own signature and is valid for so many seconds. */
export function presignedUrl(request: ToSign, expiresSeconds: number): URL {
  const { credentials } = request;
  const url = new URL(request.url);
  const query: Record<string, string> = {
    "X-Amz-Algorithm": ALGORITHM,
    "X-Amz-Credential": `${credentials.accessKeyId}/${scopeOf(request)}`,
    "X-Amz-Date": stampOf(request.nowMs),
    "X-Amz-Expires": String(expiresSeconds),
    "X-Amz-SignedHeaders": ["host", ...Object.keys(request.headers)].toSorted().join(";"),
    ...(credentials.sessionToken && { "X-Amz-Security-Token": credentials.sessionToken }),
  };
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  const { signature } = signatureOf(request, request.headers, url.searchParams);
  url.searchParams.set("X-Amz-Signature", signature);
  url.search = canonicalQuery(url.searchParams);
  return url;
}

function signatureOf(request: ToSign, headers: Readonly<Record<string, string>>, query: URLSearchParams) {
  const { method, url, credentials, region, service, nowMs } = request;
  const all = Object.entries({ ...headers, host: url.host }).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const names = all.map(([name]) => name).join(";");
  const canonical = [
    method,
    url.pathname.split("/").map(pathPart).join("/"),
    canonicalQuery(query),
    ...all.map(([name, value]) => `${name}:${value.trim().replaceAll(/\s+/g, " ")}`),
    "",
    names,
    sha256(request.body),
  ].join("\n");
  const toSign = [ALGORITHM, stampOf(nowMs), scopeOf(request), sha256(canonical)].join("\n");
  const day = hmac(`AWS4${credentials.secretAccessKey}`, stampOf(nowMs).slice(0, 8));
  const key = hmac(hmac(hmac(day, region), service), "aws4_request");
  return { names, signature: hmac(key, toSign).toString("hex") };
}

/** Every service but S3 encodes the path twice; the URL has it encoded once already. */
function pathPart(part: string): string {
  return encode(part);
}

function canonicalQuery(query: URLSearchParams): string {
  return [...query]
    .map(([name, value]) => `${encode(name)}=${encode(value)}`)
    .toSorted((a, b) => (a < b ? -1 : 1))
    .join("&");
}

function encode(text: string): string {
  return encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function scopeOf({ nowMs, region, service }: ToSign): string {
  return `${stampOf(nowMs).slice(0, 8)}/${region}/${service}/aws4_request`;
}

/** 20260314T150926Z */
function stampOf(ms: number): string {
  return new Date(ms).toISOString().replaceAll(/[-:]|\.\d{3}/g, "");
}

function sha256(content: Uint8Array | string): string {
  return createHash("sha256").update(content).digest("hex");
}

function hmac(key: Uint8Array | string, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}
