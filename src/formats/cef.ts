import { isIP } from "node:net";
import { z } from "zod";
import type { JournalEvent } from "../core/event.ts";
import { defineFormat } from "../core/format.ts";
import { type Described, decide, type Leaf, type Party, text } from "../core/meaning.ts";
import { changesText } from "./changes-text.ts";
import { partiesOf } from "./parties.ts";
import { PRODUCT, PRODUCT_VERSION, VENDOR } from "./product.ts";
import { severityOfTen } from "./severity.ts";
import { agentText, caption, cut, inlineText } from "./wording.ts";

/** ArcSight's Common Event Format. It holds the main facts of an event, not all of it. */
export const cef = defineFormat({
  name: "cef",
  summary: "Common Event Format: one line a SIEM reads at once, with the main facts of the event.",
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
  let text = `${PREFIX}|${type}|${name}|${severityOfTen(event.eventType, described.meaning)}|`;
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

/** Line breaks become escapes; no value can end its field or its line. */
function extensionText(value: string): string {
  if (!SPECIAL.test(value)) return value;
  return inlineText(value.replace(/[\\=]/g, "\\$&").replaceAll("\n", "\\n").replaceAll("\r", "\\r"));
}

/** The maximum lengths of the keys, in characters. */
const LENGTHS = {
  act: 63,
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
  dpriv: 1023,
  duid: 1023,
  duser: 1023,
  externalId: 40,
  flexString1: 1023,
  flexString2: 1023,
  fname: 1023,
  msg: 1023,
  outcome: 63,
  reason: 1023,
  reportedResourceGroupName: 128,
  reportedResourceID: 256,
  reportedResourceName: 64,
  reportedResourceType: 64,
  request: 1023,
  requestClientApplication: 1023,
  sproc: 1023,
  suid: 1023,
  suser: 1023,
} as const;
type Key = keyof typeof LENGTHS;
type Pairs = [string, string][];
type Add = (key: Key, value: Leaf | string | null | undefined, label?: string) => void;

function extensions(event: JournalEvent, described: Described): Pairs {
  const { event: fields, meaning } = described;
  const out: Pairs = [["rt", String(event.timestampMs)]];
  const add: Add = (key, value, label) => {
    const written =
      value === null || value === undefined || typeof value === "string" ? value : decide(value);
    if (written === undefined || written === null || written === "") return;
    out.push([key, cut(written, LENGTHS[key])]);
    if (label !== undefined) out.push([`${key}Label`, label]);
  };
  // An id that is too long for its key would be cut, and then no longer identify the event.
  const id = event.id === undefined || event.id.length > LENGTHS.externalId ? event.identity : event.id;
  add("externalId", id);
  add("cat", event.service);
  add("act", event.eventType);
  if (meaning.outcome.is !== "unknown") add("outcome", meaning.outcome.is);
  add("reason", meaning.outcome.reason);
  add("msg", meaning.message);
  people(add, described);
  things(add, described);
  addresses(out, described);
  add("requestClientApplication", agentName(described));
  add("sproc", meaning.processName);
  add("fname", meaning.item?.name);
  add("cs1", event.organization, "organization");
  add("cs2", event.identity, "identity");
  add("cs3", text(fields.correlation, "id"), "correlation");
  add("cs4", meaning.target?.type, "targetType");
  add("cs5", changesText(described), "changes");
  add("cs6", event.account, "account");
  add("flexString1", meaning.effects.join(" "), "effects");
  add("flexString2", (meaning.origin?.place ?? meaning.device?.place)?.country, "country");
  if (meaning.authentication?.mfa)
    out.push(["cn1", decide(meaning.authentication.mfa) ? "1" : "0"], ["cn1Label", "mfa"]);
  return out;
}

/** `duser` is the user that the event is about; the actor is `suser`. */
function people(add: Add, { meaning }: Described): void {
  const acting = meaning.subject ?? meaning.actor;
  add("suser", nameOf(acting));
  add("suid", acting?.id);
  const { user } = partiesOf(meaning);
  add("duser", nameOf(user));
  add("duid", user?.id);
  add("dpriv", meaning.privileges.join(" "));
}

/** Devices have keys of their own; groups, policies, commands and the like are reported resources. */
function things(add: Add, { meaning }: Described): void {
  const { device: target, group, object } = partiesOf(meaning);
  const { device, application } = meaning;
  add("dhost", device?.hostname ?? device?.name ?? nameOf(target));
  add("deviceExternalId", device?.id ?? target?.id);
  add("destinationServiceName", application?.label ?? application?.name ?? applicationName(object));
  add("request", application?.url);
  const thing = object ?? group;
  add("reportedResourceName", nameOf(thing));
  add("reportedResourceID", thing?.id);
  add("reportedResourceType", thing?.type);
  if (object) add("reportedResourceGroupName", nameOf(group));
}

function applicationName(object: Party | undefined): Leaf | undefined {
  return object?.kind === "application" ? (object.label ?? object.name) : undefined;
}

function nameOf(party: Party | undefined): Leaf | undefined {
  return party?.name ?? party?.email ?? party?.label;
}

/** `src` and `dst` are IPv4; IPv6 addresses have keys with labels. The device's own address is the destination. */
function addresses(out: Pairs, { meaning }: Described): void {
  address(out, meaning.origin?.ip, "src", "c6a2", "Source IPv6 Address");
  address(out, meaning.device?.ip, "dst", "c6a3", "Destination IPv6 Address");
}

function address(out: Pairs, ip: Leaf | undefined, four: string, six: string, label: string): void {
  if (ip === undefined) return;
  const value = decide(ip);
  if (isIP(value) === 4) out.push([four, value]);
  else if (isIP(value) === 6) out.push([six, value], [`${six}Label`, label]);
}

function agentName({ meaning: { origin } }: Described): Leaf | string | undefined {
  const agent = origin?.userAgent;
  return agent?.original ?? (agent && agentText(agent));
}
