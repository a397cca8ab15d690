import type { JournalEvent } from "../../core/event.ts";

/** In the order of their numbers (RFC 5424, 6.2.1). */
export const FACILITIES = [
  "kern",
  "user",
  "mail",
  "daemon",
  "auth",
  "syslog",
  "lpr",
  "news",
  "uucp",
  "cron",
  "authpriv",
  "ftp",
  "ntp",
  "audit",
  "alert",
  "clock",
  "local0",
  "local1",
  "local2",
  "local3",
  "local4",
  "local5",
  "local6",
  "local7",
] as const;

export const SEVERITIES = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"] as const;

export interface HeaderConfig {
  readonly facility: (typeof FACILITIES)[number];
  readonly severity: (typeof SEVERITIES)[number];
  readonly hostname: string;
  readonly appName: string;
  readonly structuredDataId: string;
}

/** Everything before MSG: priority, version, timestamp, names and the structured data, with a space at the end. */
export function headerOf(config: HeaderConfig): (event: JournalEvent) => Buffer {
  const priority = FACILITIES.indexOf(config.facility) * 8 + SEVERITIES.indexOf(config.severity);
  return (event) => {
    const data = structuredData(config.structuredDataId, {
      identity: event.identity,
      account: event.account,
      organization: event.organization ?? "",
      service: event.service,
    });
    const names = `${config.hostname} ${config.appName} - ${messageId(event.eventType)}`;
    return Buffer.from(`<${priority}>1 ${timestampOf(event)} ${names} ${data} `);
  };
}

/** At most six digits of fraction, as the RFC allows. */
function timestampOf(event: JournalEvent): string {
  const match = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?)\d*(Z|[+-]\d\d:\d\d)$/.exec(event.timestamp);
  return match ? `${match[1]}${match[2]}` : new Date(event.timestampMs).toISOString();
}

const MESSAGE_ID_LENGTH_MAX = 32;

function messageId(eventType: string): string {
  return eventType.replace(/[^\x21-\x7e]/g, "_").slice(0, MESSAGE_ID_LENGTH_MAX) || "-";
}

function structuredData(id: string, parameters: Readonly<Record<string, string>>): string {
  const parts = Object.entries(parameters)
    .filter(([, value]) => value !== "")
    .map(([name, value]) => ` ${name}="${escapeValue(value)}"`);
  return `[${id}${parts.join("")}]`;
}

/** A value must never be able to end the data or the message. */
function escapeValue(value: string): string {
  return value.replace(/[\u0000-\u001f\u007f]/g, " ").replace(/["\\\]]/g, "\\$&");
}
