import { z } from "zod";
import type { JournalEvent } from "../core/event.ts";
import { defineFormat } from "../core/format.ts";
import { oneLine } from "./one-line.ts";

const CLOSE = Buffer.from("}");

/** The original, byte for byte, under `event`, with the program's own fields beside it. */
export const envelope = defineFormat({
  name: "envelope",
  summary:
    "The original bytes under `event`, with account, organization, service, identity, position in the journal and the time of fetching beside them.",
  options: z.strictObject({}),
  create: () => ({
    name: "envelope",
    mediaType: "application/json",
    variable: ["event"],
    encode: (event) => Buffer.concat([Buffer.from(head(event)), oneLine(event), CLOSE]),
  }),
});

function head(event: JournalEvent): string {
  const fields = JSON.stringify({
    identity: event.identity,
    account: event.account,
    organization: event.organization,
    provider: event.provider,
    service: event.service,
    event_type: event.eventType,
    fetched_at: new Date(event.fetchedAtMs).toISOString(),
    position: { page: event.page, index: event.index },
  });
  return `${fields.slice(0, -1)},"event":`;
}
