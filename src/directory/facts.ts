import type { Clock } from "../core/clock.ts";
import { dateMsOf, retryAfterMsOf } from "../core/http/retry-after.ts";
import type { ServiceDetail, ServiceFacts } from "./errors.ts";

const MESSAGE_LENGTH_MAX = 500;
const RETRY_AFTER_MS_MAX = 86_400_000;

interface Answer {
  readonly status: number;
  header(name: string): string | undefined;
}

/** The facts of an answer beside its content; `clean` removes our secrets from the service's words. */
export function factsOf(
  answer: Answer,
  clock: Clock,
  clean: (text: string) => string,
  body?: Buffer,
): ServiceFacts & { status: number } {
  const dateMs = dateMsOf(answer.header("date"));
  const spoken = body === undefined ? {} : spokenOf(body);
  return {
    status: answer.status,
    serviceMessage: spoken.message === undefined ? undefined : bounded(clean(spoken.message)),
    code: spoken.code === undefined ? undefined : bounded(clean(spoken.code)),
    details: spoken.details?.map(({ field, message }) => ({
      field: bounded(field),
      message: bounded(clean(message)),
    })),
    requestId: requestIdOf(answer),
    dateMs,
    retryAfterMs: retryAfterMsOf(answer.header("retry-after"), dateMs ?? clock.now(), RETRY_AFTER_MS_MAX),
  };
}

export function requestIdOf(answer: Answer): string | undefined {
  return answer.header("x-request-id")?.slice(0, 200);
}

interface Spoken {
  message?: string | undefined;
  code?: string | undefined;
  details?: readonly ServiceDetail[] | undefined;
}

/** The words of an error body: `{message}`, `{code, message, status, details}`, `{error, error_description}`, or plain text. */
function spokenOf(body: Buffer): Spoken {
  const text = body.subarray(0, 65_536).toString("utf8").trim();
  if (text === "") return {};
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === "string") return { message: parsed };
    if (typeof parsed === "object" && parsed !== null)
      return spokenOfObject(parsed as Record<string, unknown>, text);
  } catch {
    // Not JSON: a proxy's page or plain words, told as they are.
  }
  return {
    message: text
      .replace(/<[^>]{0,500}>/g, " ")
      .replace(/\s+/g, " ")
      .trim(),
  };
}

function spokenOfObject(body: Record<string, unknown>, text: string): Spoken {
  const words = [body.message, body.error_description, body.error].filter(
    (part) => typeof part === "string" && part !== "",
  );
  const details =
    Array.isArray(body.details) && body.details.length > 0 ? JSON.stringify(body.details) : undefined;
  const message = words.length > 0 ? String(words[0]) : text;
  const code = typeof body.code === "string" || typeof body.code === "number" ? String(body.code) : undefined;
  return { message: details ? `${message} ${details}` : message, code, details: detailsOf(body.details) };
}

const DETAILS_MAX = 1000;

function detailsOf(details: unknown): readonly ServiceDetail[] | undefined {
  if (!Array.isArray(details)) return undefined;
  return details.slice(0, DETAILS_MAX).flatMap((detail: unknown) => {
    const { field, message } = (typeof detail === "object" && detail !== null ? detail : {}) as Partial<
      Record<string, unknown>
    >;
    return typeof field === "string" ? [{ field, message: String(message ?? "") }] : [];
  });
}

/** On one line, without control characters, cut. */
export function bounded(text: string, lengthMax = MESSAGE_LENGTH_MAX): string {
  const line = text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, " ").trim();
  return line.length > lengthMax ? `${line.slice(0, lengthMax)}…` : line;
}
