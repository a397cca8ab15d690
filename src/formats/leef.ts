import { isIP } from "node:net";
import { z } from "zod";
import type { JournalEvent } from "../core/event.ts";
import { defineFormat } from "../core/format.ts";
import { type Described, decide, type Leaf, type Party, test, text } from "../core/meaning.ts";
import { changesText } from "./changes-text.ts";
import { partiesOf } from "./parties.ts";
import { PRODUCT, PRODUCT_VERSION, VENDOR } from "./product.ts";
import { severityOfTen } from "./severity.ts";
import { cut, inlineText } from "./wording.ts";

/** QRadar's Log Event Extended Format 2.0, with tabs between the attributes. */
export const leef = defineFormat({
  name: "leef",
  summary: "Log Event Extended Format 2.0, for QRadar: one line with the main facts of the event.",
  options: z.strictObject({}),
  create: (_options, context) => ({
    name: "leef",
    mediaType: "text/plain; charset=utf-8",
    encode: (event) => line(event, context.describe(event)),
  }),
});

function line(event: JournalEvent, described: Described): string {
  const type = cut(event.eventType || "unknown", NAME_LENGTH_MAX);
  const header = ["LEEF:2.0", VENDOR, PRODUCT, PRODUCT_VERSION, type, "x09"];
  const pairs = attributes(event, described).map(([key, value]) => `${key}=${attributeText(value)}`);
  return `${header.map(headerText).join("|")}|${pairs.join("\t")}`;
}

/** For the event's id and for names of users and hosts. */
const NAME_LENGTH_MAX = 255;
const VALUE_LENGTH_MAX = 4000;

/** LEEF has no escapes: characters that would end a field become spaces. */
function headerText(value: string): string {
  return attributeText(value).replaceAll("|", " ");
}

function attributeText(value: string): string {
  return inlineText(cut(value, VALUE_LENGTH_MAX));
}

type Add = (key: string, value: Leaf | string | null | undefined, max?: number) => void;

function attributes(event: JournalEvent, described: Described): [string, string][] {
  const { event: fields, meaning } = described;
  const { outcome } = meaning;
  const out: [string, string][] = [
    ["devTime", String(event.timestampMs)],
    ["sev", String(severityOfTen(event.eventType, meaning))],
  ];
  const add: Add = (key, value, max = VALUE_LENGTH_MAX) => {
    const written =
      value === null || value === undefined || typeof value === "string" ? value : decide(value);
    if (written !== undefined && written !== null && written !== "") out.push([key, cut(written, max)]);
  };
  add("cat", event.service);
  people(add, described);
  addresses(add, described);
  things(add, described);
  add("domain", event.organization);
  add("isLoginEvent", isLogin(event, described) ? "true" : undefined);
  add("outcome", outcome.is === "unknown" ? undefined : outcome.is);
  add("reason", outcome.reason);
  add("message", meaning.message);
  add("mfa", meaning.authentication?.mfa && String(decide(meaning.authentication.mfa)));
  add("country", (meaning.origin?.place ?? meaning.device?.place)?.country);
  add("effects", meaning.effects.join(" "));
  add("changes", changesText(described));
  add("eventId", event.id);
  add("identity", event.identity);
  add("correlation", text(fields.correlation, "id"));
  add("tidemarkAccount", event.account);
  return out;
}

/** `accountName` is a user: the one that the event is about. */
function people(add: Add, { meaning }: Described): void {
  const acting = meaning.subject ?? meaning.actor;
  const { user } = partiesOf(meaning);
  add("usrName", nameOf(acting), NAME_LENGTH_MAX);
  add("usrId", acting?.id);
  add("role", acting?.kind === "admin" ? "admin" : undefined);
  add("accountName", nameOf(user), NAME_LENGTH_MAX);
  add("accountId", user?.id);
  add("privileges", meaning.privileges.join(" "));
}

/** QRadar reads `identHostName` only together with `identSrc`; without an address the host has a key of ours. */
function addresses(add: Add, { meaning: { origin, device } }: Described): void {
  const ownIp = validIp(device?.ip);
  add("src", validIp(origin?.ip));
  add("dst", ownIp);
  add("identSrc", ownIp);
  const host = device?.hostname ?? device?.name;
  if (ownIp) add("identHostName", host, NAME_LENGTH_MAX);
  else add("deviceName", host, NAME_LENGTH_MAX);
}

function things(add: Add, { meaning }: Described): void {
  const { application, device, item, target } = meaning;
  const { device: targetDevice, group, object } = partiesOf(meaning);
  if (device === undefined) add("deviceName", nameOf(targetDevice), NAME_LENGTH_MAX);
  add("deviceId", device?.id ?? targetDevice?.id);
  add("resource", application?.label ?? application?.name ?? item?.name ?? nameOf(object));
  add("url", application?.url);
  add("policy", object?.kind === "policy" ? nameOf(object) : undefined);
  add("groupName", nameOf(group));
  add("groupID", group?.id);
  add("targetId", target?.id);
  add("targetType", target?.type);
}

function nameOf(party: Party | undefined): Leaf | undefined {
  return party?.name ?? party?.email ?? party?.label;
}

function validIp(ip: Leaf | undefined): Leaf | undefined {
  return test(ip, (value) => isIP(value) !== 0) ? ip : undefined;
}

const LOGIN = /(?:^|_)(?:login|login_attempt|auth|auth_attempt|auth_failed|ldap_bind)$/;

function isLogin(event: JournalEvent, { meaning }: Described): boolean {
  return meaning.subject !== undefined && LOGIN.test(event.eventType);
}
