import { isIP } from "node:net";
import { z } from "zod";
import type { JournalEvent } from "../core/event.ts";
import { defineFormat } from "../core/format.ts";
import { type Described, type Leaf, text } from "../core/meaning.ts";
import { PRODUCT, PRODUCT_VERSION, VENDOR } from "./product.ts";
import { severityOf } from "./severity.ts";
import { caption, cut, inlineText } from "./wording.ts";

/** ArcSight's Common Event Format. It has room for the chief facts of an event, not for all of it. */
export const cef = defineFormat({
  name: "cef",
  summary: "Common Event Format: one line a SIEM reads at once, with the chief facts of the event.",
  options: z.strictObject({}),
  create: (_options, context) => ({
    name: "cef",
    mediaType: "text/plain; charset=utf-8",
    encode: (event) => line(event, context.describe(event)),
  }),
});

const PREFIX = `CEF:0|${VENDOR}|${PRODUCT}|${PRODUCT_VERSION}`;

function line(event: JournalEvent, described: Described): string {
  const type = headerText(event.eventType || "unknown");
  const name = headerText(caption(event.eventType));
  let text = `${PREFIX}|${type}|${name}|${severityOf(described.meaning)}|`;
  let separator = "";
  for (const [key, value] of extensions(event, described)) {
    text += `${separator}${key}=${extensionText(value)}`;
    separator = " ";
  }
  return text;
}

const HEADER_LENGTH_MAX = 512;
const SPECIAL = /[\\=\u0000-\u001f\u007f-\u009f\u2028\u2029]/;

function headerText(value: string): string {
  return inlineText(cut(value, HEADER_LENGTH_MAX).replace(/[\r\n]+/g, " ")).replace(/[\\|]/g, "\\$&");
}

/** Line breaks keep their meaning as escapes; no value can end its field or its line. */
function extensionText(value: string): string {
  if (!SPECIAL.test(value)) return value;
  return inlineText(value.replace(/[\\=]/g, "\\$&").replaceAll("\n", "\\n").replaceAll("\r", "\\r"));
}

/** The lengths that the keys may have, in characters. */
const LENGTHS = {
  act: 63,
  app: 31,
  cat: 1023,
  cs1: 4000,
  cs2: 4000,
  cs3: 4000,
  cs4: 4000,
  cs5: 4000,
  cs6: 4000,
  destinationServiceName: 1023,
  deviceExternalId: 255,
  dhost: 1023,
  duid: 1023,
  duser: 1023,
  dvchost: 100,
  externalId: 40,
  fname: 1023,
  msg: 1023,
  outcome: 63,
  reason: 1023,
  requestClientApplication: 1023,
  sproc: 1023,
  suid: 1023,
  suser: 1023,
} as const;
type Key = keyof typeof LENGTHS;

function extensions(event: JournalEvent, described: Described): [string, string][] {
  const { event: fields, meaning } = described;
  const out: [string, string][] = [["rt", String(event.timestampMs)]];
  const add = (key: Key, value: string | null | undefined, label?: string) => {
    if (value === undefined || value === null || value === "") return;
    out.push([key, cut(value, LENGTHS[key])]);
    if (label !== undefined) out.push([`${key}Label`, label]);
  };
  // An id longer than its key may be would be cut, and then no longer be one.
  const id = event.id === undefined || event.id.length > LENGTHS.externalId ? event.identity : event.id;
  add("externalId", id);
  add("cat", event.service);
  add("act", event.eventType);
  if (meaning.outcome.is !== "unknown") add("outcome", meaning.outcome.is);
  add("reason", meaning.outcome.reason?.value);
  add("msg", meaning.message?.value);
  const acting = meaning.subject ?? meaning.actor;
  add("suser", (acting?.name ?? acting?.email ?? acting?.label)?.value);
  add("suid", acting?.id?.value);
  const { target } = meaning;
  add("duser", (target?.name ?? target?.email ?? target?.label)?.value);
  add("duid", target?.id?.value);
  address(out, meaning.origin?.ip);
  add("dhost", (meaning.device?.hostname ?? meaning.device?.name)?.value);
  add("deviceExternalId", meaning.device?.id?.value);
  add("destinationServiceName", (meaning.application?.label ?? meaning.application?.name)?.value);
  add("requestClientApplication", agentName(described));
  add("sproc", meaning.processName?.value);
  add("fname", meaning.item?.name?.value);
  add("cs1", event.organization, "organization");
  add("cs2", event.identity, "identity");
  add("cs3", text(fields.correlation, "id")?.value, "correlation");
  add("cs4", target?.type?.value, "targetType");
  add("cs5", changedFields(described), "changedFields");
  add("cs6", event.account, "account");
  return out;
}

/** `src` is for IPv4 alone. */
function address(out: [string, string][], ip: Leaf | undefined): void {
  if (ip === undefined) return;
  if (isIP(ip.value) === 4) out.push(["src", ip.value]);
  else if (isIP(ip.value) === 6) out.push(["c6a2", ip.value], ["c6a2Label", "Source IPv6 Address"]);
}

function agentName({ meaning: { origin } }: Described): string | undefined {
  const agent = origin?.userAgent;
  if (agent?.original) return agent.original.value;
  return [agent?.name?.value, agent?.version?.value].filter((part) => part !== undefined).join(" ");
}

/** Names of fields only: values may be of any size. */
function changedFields({ meaning: { changes } }: Described): string | undefined {
  return changes?.value
    .map((change) => text(change, "field")?.value)
    .filter((field) => field !== undefined)
    .join(", ");
}
