import type { Window } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import { BACKFILL, LIVE } from "../limits/pace.ts";
import type { Work } from "../plan/agenda.ts";
import { withCountsNow } from "./counts.ts";
import { endForgotten, readWindow } from "./read-window.ts";
import { REFUSED_RETRY_MS } from "./refused.ts";
import { halvesOf, replaceByGroups, separateLoners } from "./split-window.ts";
import { sweepWindow } from "./sweep-window.ts";

/** Does one piece of work to its end. `active` are the organizations that are neither gone nor refused. */
export async function doWork(
  context: PollContext,
  { kind, window }: Work,
  active: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<void> {
  if (await cutTooLong(context, window)) return;
  if (await separateLoners(context, window)) return;
  switch (kind) {
    case "live":
      await readWindow(context, window, LIVE, signal);
      return;
    case "sweep":
      if (!(await setInactiveAside(context, window, active))) await sweepWindow(context, window, signal);
      return;
    case "history":
      if (!(await endForgotten(context, window, context.serviceClock.now())))
        await readWindow(context, window, BACKFILL, signal);
  }
}

/** A group that was made before a smaller limit of header blocks was learned is cut up without asking. */
async function cutTooLong(context: PollContext, window: Window): Promise<boolean> {
  const { organizations } = window.stream;
  const { headerBytesMax } = context.learned;
  if (organizations.length < 2 || context.source.headerBytes({ organizations }) <= headerBytesMax)
    return false;
  await replaceByGroups(context, window, halvesOf(organizations));
  return true;
}

/** A window that was read is not swept for organizations that are gone or refused; the others go on without them. */
async function setInactiveAside(
  context: PollContext,
  window: Window,
  active: ReadonlySet<string>,
): Promise<boolean> {
  const { organizations } = window.stream;
  const { journal, serviceClock, settings } = context;
  const gone = organizations.filter((id) => !active.has(id));
  // A time that the service has forgotten is not asked for, gone or not.
  if (gone.length === 0 || window.fromMs < serviceClock.now() - settings.retentionMs) return false;
  if (gone.length === organizations.length) {
    const nextMs = serviceClock.earlierNow() + REFUSED_RETRY_MS;
    await journal.changeWindows((now) => ({ put: [{ ...withCountsNow(now, window), nextMs }] }));
    return true;
  }
  const here = organizations.filter((id) => active.has(id));
  await replaceByGroups(context, window, [here, ...gone.map((id) => [id])]);
  return true;
}
