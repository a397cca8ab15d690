import { createHmac } from "node:crypto";
import type { SignableRequest } from "../../core/http/requester.ts";

/** The headers whose values are lines of the text that is signed, in this order, without the length. */
const BEFORE_LENGTH = ["content-encoding", "content-language"];
const AFTER_LENGTH = [
  "content-md5",
  "content-type",
  "date",
  "if-modified-since",
  "if-match",
  "if-none-match",
  "if-unmodified-since",
  "range",
];

/**
 * The Authorization header of Azure Storage's Shared Key: an HMAC, with the account's key, of the method, the
 * standard headers, the x-ms- headers, and the resource with its query.
 */
export function sharedKeyAuthorization(request: SignableRequest, account: string, key: string): string {
  const { method, url, headers, body } = request;
  const headerOf = (name: string) => headers[name] ?? "";
  const length = typeof body === "string" ? Buffer.byteLength(body) : body.length;
  const own = Object.keys(headers)
    .filter((name) => name.startsWith("x-ms-"))
    .toSorted()
    .map((name) => `${name}:${headers[name]!.trim()}`);
  const query = [...url.searchParams].toSorted(([a], [b]) => (a < b ? -1 : 1));
  const resource = [
    `/${account}${url.pathname}`,
    ...query.map(([name, value]) => `${name.toLowerCase()}:${value}`),
  ];
  const text = [
    method,
    ...BEFORE_LENGTH.map(headerOf),
    length === 0 ? "" : String(length),
    ...AFTER_LENGTH.map(headerOf),
    ...own,
    resource.join("\n"),
  ].join("\n");
  const signature = createHmac("sha256", Buffer.from(key, "base64")).update(text).digest("base64");
  return `SharedKey ${account}:${signature}`;
}
