import type { UserOutcome } from "./job.ts";

/** A row of a Workday import's results. The specification does not show one. */
export type WorkdayResult = Readonly<Record<string, unknown>>;

/** Whole words that say that a user was imported. The specification names none, so everything else is no success. */
const DONE =
  /^(success|successful|succeeded|complete|completed|finished|done|ok|imported|created|updated|reactivated|skipped|ignored|unchanged)$/;

/** The import of the user has not ended. "processed" and "unprocessable" are other words. */
const IN_PROGRESS = /\b(pending|(en)?queued|running|(in ?)?progress|processing|started|scheduled|waiting)\b/;

/** Parts of a status that failed, which may be written as one word. */
const FAILED_STATUS = /fail|error|reject|denied|refused|invalid|cancel|abort|timed? ?out/;

/** Words that say that the user was not imported, also in a finished result. */
const FAILED =
  /\b(fail(s|ed|ing|ures?)?|reject(s|ed|ions?)?|denied|refused|aborted|cancell?ed|errors?|invalid|unable|unsuccessful(ly)?|unprocessable|timed? ?out|could(n't| not)|can(not|'t| not)|already (in use|taken)|success ?[:=] ?false)\b/;
/** The same, unless the user was left out on purpose. */
const NOT_DONE =
  /(\bnot|n't) (be |been |successfully )*(created?|updated?|imported?|reactivated?|saved?|accept(ed)?|allow(ed)?|permit(ted)?|valid)\b/;
const SKIPPED = /skip|ignored|unchanged|no change/;

/** "errors: 0", but not "failed: 0 seats are left". */
const EMPTY_FIELD = /\b(?!success)\w+ ?[:=] ?(0|no|none|null|false)(?= ?([,;.)]|and |$|\w+ ?[:=]))/g;
/** "1 created, 0 failed", "no validation errors", "error-free"; but not "a user without email failed". */
const NO_FAILURE =
  /\b(with |and )?((0|zero|no|none|not|without)( any)?( users?| rows?| records?| validation)? (failed|failures?|errors?|rejected|invalid)|(0|zero|no|without)( any)? \w+ (errors|failures)|0( users?)? (created|updated|reactivated|skipped|ignored)|error free)\b/g;

/** A status that is not known leaves the user pending, so its results are asked for again. */
export function outcomeOfResult(result: WorkdayResult): {
  outcome: UserOutcome;
  reason: string | undefined;
} {
  const status = wordsOf(result.status).trim().toLowerCase().slice(0, 200);
  const messages = [result.statusMsg, result.message].map(wordsOf).filter((words) => words !== "");
  const errors = [result.error, result.errors].map(wordsOf).filter((words) => !isNothing(words));
  const reason = [...new Set([...messages, ...errors])].join("; ").slice(0, 500) || undefined;
  const [state, told] = [plain(wordsOf(result.status)), plain(messages.join("; "))].map(withoutNothing) as [
    string,
    string,
  ];
  const isProgress = IN_PROGRESS.test(state);
  const isNoSuccess = result.success === false || result.success === "false";
  const isSkipped = SKIPPED.test(`${state} ${told}`);
  if (
    errors.length > 0 ||
    FAILED_STATUS.test(state) ||
    [state, told].some((words) => FAILED.test(words) || (!isSkipped && NOT_DONE.test(words))) ||
    (isNoSuccess && !isProgress)
  )
    return { outcome: "failed", reason: reason ?? reasonOf(status, isNoSuccess) };
  if (!DONE.test(state)) {
    return {
      outcome: "pending",
      reason: status === "" || isProgress ? undefined : reasonOf(status, false),
    };
  }
  if (isSkipped) return { outcome: "skipped", reason: reason ?? "skipped" };
  const words = `${state} ${told} ${plain(wordsOf(result.operation))}`;
  if (/\bre ?activ/.test(words)) return { outcome: "reactivated", reason: undefined };
  return { outcome: /creat/.test(words) ? "created" : "updated", reason: undefined };
}

function reasonOf(status: string, isNoSuccess: boolean): string {
  const words = status === "" ? [] : [`the service's status is "${status}"`];
  return [...words, ...(isNoSuccess ? ["the result says success: false"] : [])].join("; ");
}

const DEPTH_MAX = 5;

/** A message in words. Fields of an object that say nothing are left out: absent and empty values, false and 0. */
function wordsOf(value: unknown, depth = 0): string {
  if (value === undefined || value === null || value === false || value === 0) return "";
  if (typeof value !== "object") return String(value);
  if (depth > DEPTH_MAX) return "nested fields";
  return Object.entries(value)
    .map(([key, field]) => {
      if (key === "success" && field === false) return "success: false";
      const words = wordsOf(field, depth + 1);
      return words === "" || Array.isArray(value) ? words : `${key}: ${words}`;
    })
    .filter((words) => words !== "")
    .join(", ");
}

/** In lower case, with spaces where names such as VALIDATION_ERROR or createFailed have none. */
function plain(words: string): string {
  return words
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .replace(/’/g, "'")
    .replace(/[\s"{}[\]_-]+/g, " ")
    .trim()
    .toLowerCase();
}

function withoutNothing(words: string): string {
  return words.replace(EMPTY_FIELD, "").replace(NO_FAILURE, "").trim();
}

/** What a field for errors has where there was none. */
function isNothing(words: string): boolean {
  return /^((0|no|none|null|false|found)?([^\p{L}\p{N}]|$))*$/u.test(withoutNothing(plain(words)));
}
