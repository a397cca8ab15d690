import { isIP } from "node:net";
import { z } from "zod";
import type { JournalEvent } from "../core/event.ts";
import { defineFormat } from "../core/format.ts";
import { type Described, text } from "../core/meaning.ts";
import { PRODUCT, PRODUCT_VERSION, VENDOR } from "./product.ts";
import { severityOf } from "./severity.ts";
import { cut, inlineText } from "./wording.ts";

/** QRadar's Log Event Extended Format 2.0, with tabs between the attributes. */
export const leef = defineFormat({
  name: "leef",
  summary: "Log Event Extended Format 2.0, for QRadar: one line with the chief facts of the event.",
  options: z.strictObject({}),
  create: (_options, context) => ({
    name: "leef",
    mediaType: "text/plain; charset=utf-8",
    encode: (event) => line(event, context.describe(event)),
  }),
});

function line(event: JournalEvent, described: Described): string {
  const header = ["LEEF:2.0", VENDOR, PRODUCT, PRODUCT_VERSION, event.eventType || "unknown", "x09"];
  const pairs = attributes(event, described).map(([key, value]) => `${key}=${attributeText(value)}`);
  return `${header.map(headerText).join("|")}|${pairs.join("\t")}`;
}

const VALUE_LENGTH_MAX = 4000;

/** LEEF has no escapes: what would end a field is replaced by a space. */
function headerText(value: string): string {
  return attributeText(value).replaceAll("|", " ");
}

function attributeText(value: string): string {
  return inlineText(cut(value, VALUE_LENGTH_MAX));
}

function attributes(event: JournalEvent, described: Described): [string, string][] {
  const { event: fields, meaning } = described;
  const { target, device, application, outcome } = meaning;
  const acting = meaning.subject ?? meaning.actor;
  const ip = meaning.origin?.ip?.value;
  const out: [string, string][] = [
    ["devTime", String(event.timestampMs)],
    ["sev", String(severityOf(meaning))],
  ];
  const add = (key: string, value: string | null | undefined, max = VALUE_LENGTH_MAX) => {
    if (value !== undefined && value !== null && value !== "") out.push([key, cut(value, max)]);
  };
  add("cat", event.service);
  add("usrName", (acting?.name ?? acting?.email ?? acting?.label)?.value, 255);
  add("src", ip !== undefined && isIP(ip) !== 0 ? ip : undefined);
  add("identHostName", (device?.hostname ?? device?.name)?.value, 255);
  add("accountName", (target?.name ?? target?.email ?? target?.label)?.value, 255);
  add("resource", (application?.label ?? application?.name ?? meaning.item?.name)?.value);
  add("url", application?.url?.value);
  add("role", acting?.kind === "admin" ? "admin" : undefined);
  add("domain", event.organization);
  add("isLoginEvent", isLogin(event, described) ? "true" : undefined);
  add("outcome", outcome.is === "unknown" ? undefined : outcome.is);
  add("reason", outcome.reason?.value);
  add("message", meaning.message?.value);
  add("usrId", acting?.id?.value);
  add("targetId", target?.id?.value);
  add("targetType", target?.type?.value);
  add("deviceId", device?.id?.value);
  add("eventId", event.id);
  add("identity", event.identity);
  add("correlation", text(fields.correlation, "id")?.value);
  add("tidemarkAccount", event.account);
  return out;
}

const LOGIN = /(?:^|_)(?:login|login_attempt|auth|auth_attempt|ldap_bind)$/;

function isLogin(event: JournalEvent, { meaning }: Described): boolean {
  return meaning.subject !== undefined && LOGIN.test(event.eventType);
}
