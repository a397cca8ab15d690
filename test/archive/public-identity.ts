import { hash } from "node:crypto";

/**
 * The identity of an event as docs/auditor.md defines it (A11), for ids that are strings: the first 16 bytes of SHA-256
 * over organization, service, event type, timestamp and id, each followed by a zero byte; over the organization, a
 * zero byte and the event's bytes where it has no id. A portal's own events have `provider <id>` for an organization.
 */
export function publicIdentityOf(organization: string, slice: Uint8Array): string {
  const owner = organization.replace(/^provider:/, "provider ");
  const event = JSON.parse(Buffer.from(slice).toString("utf8")) as Record<string, unknown>;
  const text = (value: unknown) =>
    typeof value === "string" || typeof value === "number" ? String(value) : "";
  const { service, event_type, timestamp, id } = event;
  const input =
    text(id) === ""
      ? Buffer.concat([Buffer.from(`${owner}\0`), slice])
      : Buffer.from(
          [owner, text(service), text(event_type), text(timestamp), text(id)]
            .map((field) => `${field}\0`)
            .join(""),
        );
  return hash("sha256", input, "hex").slice(0, 32);
}

/** By the definition of `ids_sha256` (A11), which needs no code of the program: each identity once, in order, with a line break. */
export function identitiesHash(identities: readonly string[]): string {
  const lines = [...new Set(identities)].toSorted().map((identity) => `${identity}\n`);
  return hash("sha256", lines.join(""), "hex");
}
