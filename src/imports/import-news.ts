import { costly } from "../core/costly.ts";
import type { JournalEvent } from "../core/event.ts";
import type { UserOutcome } from "./job.ts";

/** The import news of one event. */
export interface ImportNews {
  /** The service's job id. */
  readonly serviceJob: string;
  /** The correlation's type says that it is an import; undefined where it says nothing, and it may be one. */
  readonly isImport: boolean | undefined;
  /** The application or integration that imports, where the event names it. */
  readonly source: string | undefined;
  readonly kind: "application" | "workday";
  /** The user; undefined for an event about the job itself. */
  readonly user: ImportUser | undefined;
  readonly outcome: UserOutcome | undefined;
  readonly reason: string | undefined;
  /** The state that the user has now, such as STAGED, where the event's changes name it. */
  readonly userState: string | undefined;
}

export interface ImportUser {
  readonly userId: string | undefined;
  readonly username: string | undefined;
  readonly email: string | undefined;
}

/** Cheap test without parsing: false means that the correlation's type does not mention an import. */
export function mayBeImport({ bytes }: JournalEvent): boolean {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
  // A JSON escape can hide the word.
  return /import|\\u/i.test(text);
}

/** Imports are told in directory events. Alerts and notifications have correlations as well, without a type. */
function mayTellImport({ service }: JournalEvent): boolean {
  return service === "directory" || service === "";
}

/** Without a type, an event may belong to an import if it is about a user, or if its own type says so. */
function isImportOf(
  type: string | undefined,
  user: ImportUser | undefined,
  eventType: string,
): boolean | undefined {
  if (type !== undefined) return /import/i.test(type);
  return user !== undefined || /import/i.test(eventType) ? undefined : false;
}

/** The reason of an event that is not read. The index job_events_passed_over has the same words. */
export const PASSED_OVER = "passed over: too large to be read";

/** undefined for an event without a correlation, or one that is not a JSON object. */
export function newsOf(event: JournalEvent): ImportNews | undefined {
  if (event.correlationId === undefined || event.correlationId === "") return undefined;
  if (costly(event.bytes)) return passedOver(event, event.correlationId);
  const body = parse(event.bytes);
  if (body === undefined) return undefined;
  const type = text(at(body, "correlation", "type"));
  const isDirectory = mayTellImport(event);
  const user = isDirectory ? userOf(body, event.eventType) : undefined;
  return {
    serviceJob: event.correlationId,
    isImport: isDirectory ? isImportOf(type, user, event.eventType) : false,
    source: text(at(body, "application", "id")) ?? text(body.idm_client_id),
    kind: /workday/i.test(text(at(body, "initiated_by", "source_metadata", "name")) ?? "")
      ? "workday"
      : "application",
    user,
    userState: stateOf(body.changes),
    ...(user === undefined ? { outcome: undefined, reason: undefined } : outcomeOf(body, event.eventType)),
  };
}

/** Parsing it would take hundreds of megabytes. Its correlation is known, so the job can say that it was not read. */
function passedOver(event: JournalEvent, serviceJob: string): ImportNews {
  const { bytes } = event;
  const json = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
  return {
    serviceJob,
    isImport: mayTellImport(event) && /"type"\s*:\s*"[^"]{0,64}import/i.test(json),
    kind: "application",
    ...{ source: undefined, user: undefined, userState: undefined },
    ...{ outcome: undefined, reason: PASSED_OVER },
  };
}

/**
 * An absent `success` is no failure; false is one, and so is an error message without a success. The event's
 * type says what a success did; an update that ends a suspension is a reactivation.
 */
function outcomeOf(body: Fields, eventType: string): Pick<ImportNews, "outcome" | "reason"> {
  const error = text(body.error_message) ?? messageOf(body.message_chain);
  if (body.success === false || (error !== undefined && body.success !== true)) {
    return { outcome: "failed", reason: (error ?? "the event gives no reason").slice(0, 500) };
  }
  return { outcome: successOf(body, eventType.toLowerCase()), reason: undefined };
}

function successOf(body: Fields, eventType: string): UserOutcome | undefined {
  if (/reactivat|unsuspend/.test(eventType)) return "reactivated";
  if (/create|_add$/.test(eventType)) return "created";
  if (/update|activat/.test(eventType)) return endsSuspension(body.changes) ? "reactivated" : "updated";
  return undefined;
}

function endsSuspension(changes: unknown): boolean {
  if (!Array.isArray(changes)) return false;
  return changes.some((change: unknown) => {
    const { field, from, to } = fields(change) ?? {};
    if (field === "suspended") return isTrue(from) && !isTrue(to);
    return field === "state" && /^suspended$/i.test(String(from)) && !/^suspended$/i.test(String(to));
  });
}

function stateOf(changes: unknown): string | undefined {
  if (!Array.isArray(changes)) return undefined;
  const change = changes.map(fields).findLast((one) => one?.field === "state");
  return text(change?.to)?.toUpperCase();
}

function isTrue(value: unknown): boolean {
  return value === true || value === "true";
}

function messageOf(chain: unknown): string | undefined {
  const first = Array.isArray(chain) ? chain[0] : chain;
  const code = Number(at(fields(first) ?? {}, "response_code"));
  const message = text(at(fields(first) ?? {}, "response_message"));
  return Number.isFinite(code) && code >= 400 ? message : undefined;
}

/** The resource, where it is a user. One without a type counts as a user if its names or the event's type say so. */
function userOf(body: Fields, eventType: string): ImportUser | undefined {
  const resource = fields(body.resource);
  if (resource === undefined) return undefined;
  const type = text(resource.type);
  if (type !== undefined && !/^(system)?[_ -]?user$/i.test(type)) return undefined;
  const user = {
    userId: text(resource.id),
    username: text(resource.username),
    email: text(resource.email) ?? text(resource.recipient_email),
  };
  const isUser = type !== undefined || /user/i.test(eventType);
  return (user.username ?? user.email ?? (isUser ? user.userId : undefined)) ? user : undefined;
}

type Fields = Readonly<Record<string, unknown>>;

function parse(bytes: Uint8Array): Fields | undefined {
  try {
    return fields(JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8")));
  } catch {
    return undefined;
  }
}

function fields(value: unknown): Fields | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
}

function at(body: Fields, ...path: readonly string[]): unknown {
  let value: unknown = body;
  for (const name of path) value = fields(value)?.[name];
  return value;
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
