import type { JournalEvent } from "../core/event.ts";
import type { Outcome } from "./job.ts";

/** What one event says about an import. */
export interface ImportNews {
  /** The service's job id. */
  readonly serviceJob: string;
  /** The correlation's type says that it is an import; undefined where it says nothing. */
  readonly isImport: boolean | undefined;
  /** The application or integration that imports, where the event names it. */
  readonly source: string | undefined;
  readonly kind: "application" | "workday";
  /** Whom it is about; undefined for an event about the job itself. */
  readonly user: ImportUser | undefined;
  readonly outcome: Outcome | undefined;
  readonly reason: string | undefined;
}

export interface ImportUser {
  readonly userId: string | undefined;
  readonly username: string | undefined;
  readonly email: string | undefined;
}

/** False: the correlation's type does not say that it is an import, and nothing needs to be parsed to know it. */
export function mayBeImport({ bytes }: JournalEvent): boolean {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
  // An escape can spell it too.
  return /import|\\u/i.test(text);
}

/** undefined for an event without a correlation, or one that is not a JSON object. */
export function newsOf(event: JournalEvent): ImportNews | undefined {
  if (event.correlationId === undefined || event.correlationId === "") return undefined;
  const body = parse(event.bytes);
  if (body === undefined) return undefined;
  const type = text(at(body, "correlation", "type"));
  const user = userOf(body);
  return {
    serviceJob: event.correlationId,
    isImport: type === undefined ? undefined : /import/i.test(type),
    source: text(at(body, "application", "id")) ?? text(body.idm_client_id),
    kind: /workday/i.test(text(at(body, "initiated_by", "source_metadata", "name")) ?? "")
      ? "workday"
      : "application",
    user,
    ...(user === undefined ? { outcome: undefined, reason: undefined } : outcomeOf(body, event.eventType)),
  };
}

/**
 * An absent `success` is no failure; false is one, and so is an error message without a success. What a
 * success did is in the event's type; an update that ends a suspension is a reactivation.
 */
function outcomeOf(body: Fields, eventType: string): Pick<ImportNews, "outcome" | "reason"> {
  const error = text(body.error_message) ?? messageOf(body.message_chain);
  if (body.success === false || (error !== undefined && body.success !== true)) {
    return { outcome: "failed", reason: (error ?? "the event gives no reason").slice(0, 500) };
  }
  return { outcome: successOf(body, eventType.toLowerCase()), reason: undefined };
}

function successOf(body: Fields, eventType: string): Outcome | undefined {
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

function isTrue(value: unknown): boolean {
  return value === true || value === "true";
}

function messageOf(chain: unknown): string | undefined {
  const first = Array.isArray(chain) ? chain[0] : chain;
  const code = Number(at(fields(first) ?? {}, "response_code"));
  const message = text(at(fields(first) ?? {}, "response_message"));
  return Number.isFinite(code) && code >= 400 ? message : undefined;
}

/** The resource where it is a user; a type that is absent is taken for one. */
function userOf(body: Fields): ImportUser | undefined {
  const resource = fields(body.resource);
  if (resource === undefined) return undefined;
  const type = text(resource.type);
  if (type !== undefined && !/user/i.test(type)) return undefined;
  const user = {
    userId: text(resource.id),
    username: text(resource.username),
    email: text(resource.email) ?? text(resource.recipient_email),
  };
  return (user.userId ?? user.username ?? user.email) ? user : undefined;
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
