import type { RosterEntry } from "../../core/roster.ts";
import type { PollContext } from "../context.ts";
import { MAY_PASS, probe } from "../read/probe.ts";
import { REFUSED_RETRY_MS, raiseRefused } from "../read/refused.ts";
import type { SourceFault } from "../read/source.ts";

const HOUR_MS = 3_600_000;
/** As long as a window that keeps failing waits at the most. */
const UNANSWERED_RETRY_MS = 300_000;
/** So many are tried in one turn of a process that goes on, and so many again by `run --once`. */
const RETRIES_MAX = 20;
/** `run --once` has no next turn, and one bad answer must not fail it. */
const ATTEMPTS_ONCE_MAX = 5;
const AGAIN_MS = 500;
const NAMED_MAX = 5;
/** What a refused organization may answer. Anything else says nothing about whether it is still refused. */
const REFUSALS: readonly SourceFault["kind"][] = [
  "forbidden",
  "unknown_organization",
  "not_entitled",
  "bad_request",
];

/** Organizations could not be read, for another reason than their refusal. */
export class UnansweredError extends Error {
  override readonly name = "UnansweredError";
}

/** Refused organizations are tried again at their time, or when a person asks for a look. */
export function createRefusedRetries(context: PollContext) {
  const { account, roster, clock, serviceClock, alarms, settings } = context;
  /** When a person last asked for a look: organizations that were refused before are tried again. */
  let askedMs = Number.NEGATIVE_INFINITY;
  /** Those whose last try failed otherwise. */
  const unanswered = new Map<string, { readonly message: string; readonly waitMs: number }>();

  const listRefused = () => roster.list(account).filter(({ state }) => state === "refused");

  /** A longer wait is never set: the local clock was set back meanwhile. */
  function isDue({ id, nextMs }: RosterEntry): boolean {
    const leftMs = (nextMs ?? 0) - clock.now();
    // The clock was set back since then.
    if (askedMs > clock.now()) askedMs = Number.NEGATIVE_INFINITY;
    const waitMs = unanswered.get(id)?.waitMs ?? REFUSED_RETRY_MS;
    return leftMs <= 0 || leftMs > REFUSED_RETRY_MS || clock.now() + leftMs - waitMs < askedMs;
  }

  function alarm({ id, reason }: RosterEntry): void {
    const refusal = reason ?? "The service refuses it.";
    const now = unanswered.get(id);
    const message = now === undefined ? refusal : `${refusal} The last try failed otherwise: ${now.message}`;
    raiseRefused(context, `${account}/${id}`, message);
  }

  async function retry(entry: RosterEntry, signal: AbortSignal): Promise<SourceFault | undefined> {
    const { id } = entry;
    const services = settings.services;
    const stream = { id: 0, account, provider: null, organizations: [id], services };
    const nowMs = serviceClock.now();
    const fault = await probe(context, { stream, fromMs: nowMs - HOUR_MS, toMs: nowMs }, [id], signal);
    if (fault === undefined) {
      unanswered.delete(id);
      await roster.setState(account, [id], "active", null, null);
      alarms.clear("organization_refused", `${account}/${id}`);
      return undefined;
    }
    const isRefusal = REFUSALS.includes(fault.kind);
    const reason = isRefusal ? fault.message : entry.reason;
    const waitMs = isRefusal ? REFUSED_RETRY_MS : waitOf(fault);
    if (isRefusal) unanswered.delete(id);
    else unanswered.set(id, { message: fault.message, waitMs });
    await roster.setState(account, [id], "refused", reason, clock.now() + waitMs);
    alarm({ ...entry, reason });
    return fault;
  }

  return {
    /** They are tried again now, not at their time: the reason may be gone. */
    hurry(): void {
      askedMs = clock.now();
    },

    /** Tries those again whose time has come; true when one is back. `isLast`: there is no next turn. */
    async retryDue(signal: AbortSignal, isLast: boolean): Promise<boolean> {
      const due = listRefused()
        .filter(isDue)
        .toSorted((a, b) => (a.nextMs ?? 0) - (b.nextMs ?? 0));
      let left = isLast ? due : due.slice(0, RETRIES_MAX);
      let isBack = false;
      for (let attempt = 1; ; attempt++) {
        const failed: RosterEntry[] = [];
        for (const entry of left) {
          const fault = await retry(entry, signal);
          if (fault === undefined) isBack = true;
          else if (MAY_PASS.includes(fault.kind)) failed.push(entry);
        }
        if (failed.length === 0 || !isLast || attempt === ATTEMPTS_ONCE_MAX) return isBack;
        // Where the service answers nobody, trying all of them again would take hours.
        left = failed.slice(0, RETRIES_MAX);
        await clock.sleep(AGAIN_MS * 2 ** (attempt - 1), signal);
      }
    },

    /** The alarms of a process end with it, and a refusal that lasts is found again only an hour later. */
    raiseStanding(): void {
      for (const entry of listRefused()) alarm(entry);
    },

    /** Throws where some could not be read for another reason than their refusal: nothing else says so. */
    requireAnswers(): void {
      const list = listRefused().filter(({ id }) => unanswered.has(id));
      if (list.length === 0) return;
      const named = list
        .slice(0, NAMED_MAX)
        .map(({ id }) => `${account}/${id} (${unanswered.get(id)!.message})`);
      const more = list.length > NAMED_MAX ? ` and ${list.length - NAMED_MAX} more` : "";
      throw new UnansweredError(
        `${named.join(", ")}${more} cannot be read. The service refused this before, and whether it still does is not known. The next run tries again.`,
      );
    },
  };
}

function waitOf({ retryAfterMs = 0 }: SourceFault): number {
  return Math.min(REFUSED_RETRY_MS, Math.max(UNANSWERED_RETRY_MS, retryAfterMs));
}
