import type { DifferingPart } from "../archive/close/differing.ts";
import type { Verification } from "../archive/verify/verify.ts";
import type { Alarms } from "../core/alarms.ts";
import type { ArchiveBacklog } from "../core/archive.ts";
import type { Clock } from "../core/clock.ts";
import { DecisionNeededError, explain } from "../core/errors.ts";
import { DAY_MS } from "../core/time.ts";

/** A day that is open longer than this beyond `settle` raises an alarm. */
const BEHIND_DAYS = 5;

/** No space, a quota, or a limit on the size of files. */
const FULL = new Set(["ENOSPC", "EDQUOT", "EFBIG", "SQLITE_FULL"]);

/** The alarms of one archive. */
export function createArchiveAlarms(alarms: Alarms, clock: Clock, name: string) {
  return {
    /** A turn of closing succeeded. */
    worked(): void {
      alarms.clear("archive_stopped", name);
      alarms.clear("archive_failing", name);
    },

    /** A turn failed; `stopped` where a person has to decide. */
    failed(error: unknown, places: readonly string[]): "stopped" | "failing" {
      const isDecision = error instanceof DecisionNeededError;
      const isFull = FULL.has((error as NodeJS.ErrnoException | null)?.code ?? "");
      alarms.raise({
        kind: isDecision ? "archive_stopped" : "archive_failing",
        subject: name,
        severity: isDecision ? "critical" : "warning",
        message: isFull ? `No space is left for the archive: ${explain(error)}.` : explain(error),
        remedy: isDecision
          ? `Choose one: ${error.choices.join("; ")}. Nothing is lost meanwhile: the journal keeps what is not closed.`
          : isFull
            ? `Free space on the disks of ${places.join(" and ")}, or enlarge them. Closing goes on by itself then. The journal keeps what is not closed.`
            : "Retrying automatically. If this persists, check the disk and that the store can be reached. The journal keeps what is not closed.",
      });
      return isDecision ? "stopped" : "failing";
    },

    /** After every checkpoint: the witnesses that did not cosign it. */
    witnesses(away: readonly { readonly name: string; readonly reason: string }[]): void {
      if (away.length === 0) {
        alarms.clear("witness_away", name);
        return;
      }
      alarms.raise({
        kind: "witness_away",
        subject: name,
        severity: "warning",
        message: `${away.map((one) => `${one.name}: ${one.reason}`).join("; ")}. The archive goes on; new checkpoints lack this cosignature.`,
        remedy: "Check that the witness runs and knows this log. The next checkpoint is cosigned again.",
      });
    },

    backlog({ oldestDay, events }: ArchiveBacklog, settleMs: number): void {
      const behindMs = oldestDay === null ? 0 : clock.now() - Date.parse(oldestDay) - DAY_MS - settleMs;
      if (behindMs < BEHIND_DAYS * DAY_MS) {
        alarms.clear("archive_behind", name);
        return;
      }
      alarms.raise({
        kind: "archive_behind",
        subject: name,
        severity: "warning",
        message: `The day ${oldestDay} is not closed: the windows of some of its organizations are not sealed. ${events} events wait in the journal.`,
        remedy:
          "See `tidemark coverage` for windows that are refused or unread, and the alarms of their accounts.",
      });
    },

    /** Days that have left the service cannot be compared any more, so they end the alarm. */
    differing(parts: readonly DifferingPart[], retentionMs: number): void {
      const own = parts.filter(({ day }) => clock.now() - Date.parse(day) < retentionMs);
      if (own.length === 0) {
        alarms.clear("archive_differs", name);
        return;
      }
      const days = own.map(({ day }) => day).toSorted();
      const lines = own.reduce((sum, part) => sum + part.lines, 0);
      alarms.raise({
        kind: "archive_differs",
        subject: name,
        severity: "warning",
        message: `For ${lines} closed days of organizations, from ${days[0]} to ${days.at(-1)}, the service returned or counted another number of events than is held.`,
        remedy: `\`tidemark archive verify\` names them. \`tidemark reconcile --since ${days[0]}\` compares that time once more, and what it finds is archived. If it finds nothing, ask the vendor why the counts and the events differ.`,
      });
    },

    verified({ isValid, findings }: Verification, place: string): void {
      if (isValid) {
        alarms.clear("archive_invalid", name);
        return;
      }
      const [first] = findings;
      alarms.raise({
        kind: "archive_invalid",
        subject: name,
        severity: "critical",
        message: `${findings.length} findings in ${place}; the first: ${first!.subject}: ${first!.message}`,
        remedy:
          "Run `tidemark archive verify` to see all of them. Keep the archive as it is, and restore what is damaged from a copy.",
      });
    },
  };
}
