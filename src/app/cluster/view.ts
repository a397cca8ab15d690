import type { Clock } from "../../core/clock.ts";
import { RouteError } from "../../core/route.ts";
import { boundInLane, numberInAll, numberInLane } from "../../core/shard.ts";
import { statementOf } from "../../core/statement.ts";
import type { GapsQuery, GapsView } from "../../core/view/gaps.ts";
import type { AlarmView, StatusView } from "../../core/view/status.ts";
import type { View } from "../../core/view.ts";
import { type Answered, type AskedLanes, everyLane, gather, incompleteText, SilentError } from "./answers.ts";
import {
  mergeCalendars,
  mergeDeadLetters,
  mergeDrift,
  mergeOrganizations,
  mergeRates,
} from "./merge-lists.ts";
import { addRecords, extreme, mergeSinks, mergeStatuses } from "./merge-status.ts";

export type LaneView = OwnLaneView | RemoteLanesView;

/** One lane that runs here. */
export interface OwnLaneView {
  readonly lane: number;
  readonly view: View;
}

/** Lanes of another machine. */
export interface RemoteLanesView {
  readonly lane?: undefined;
  readonly lanes: readonly number[];
  readonly view: View;
  /** Asks one question of the view; the answer may be about fewer lanes. */
  ask<Found>(question: (view: View) => Promise<Found>): Promise<Answered<Found>>;
}

export interface MachineViewOptions {
  readonly version: string;
  readonly clock: Clock;
  /** undefined: this is a command; the machine that has run longest counts. */
  readonly startedMs: number | undefined;
  /** The lanes of the cluster, where the whole cluster is shown: lanes without an answer are named. */
  readonly laneCount?: number | undefined;
  readonly sinkBehindMs: number;
  /** The lanes that run here now, and the other machines where the whole cluster is shown. */
  lanes(): readonly LaneView[];
  /** Alarms of the machine itself. */
  alarms(): readonly AlarmView[];
}

/**
 * Several lanes as one view. A lane that closes while it is asked, and a machine that does not answer, are left out of that
 * answer, which names them.
 */
export function createMachineView(options: MachineViewOptions): View {
  const { clock } = options;
  let seen: { readonly token: number; readonly ends: ReadonlyMap<number | undefined, number> } = {
    token: 0,
    ends: new Map(),
  };

  async function all<Found>(ask: (view: View, lane: number | undefined) => Promise<Found>) {
    const lanes = options.lanes();
    const gathered = await gather(lanes.map((one) => asked(one, ask)));
    for (const { lanes: failed, reason } of gathered.failed) {
      const isOwn = (one: LaneView) => one.lane !== undefined && failed.includes(one.lane);
      const asked = lanes.find(isOwn);
      const runsHere = options.lanes().some((other) => isOwn(other) && other.view === asked?.view);
      if (runsHere) throw reason;
    }
    const incomplete = incompleteText(gathered, everyLane(options.laneCount ?? 0));
    return {
      found: gathered.answers.map((one) => one.found),
      missing: incomplete === undefined ? {} : { incomplete },
    };
  }

  return {
    async status() {
      // One question: the headline is made from both, so a lane that lacks one of them is named. At once: a silent machine
      // is waited for only once.
      const { found, missing } = await all((one) => Promise.all([one.status(), one.sinks()]));
      const statuses = found.map(([status]) => status);
      const sinks = mergeSinks(found.flatMap(([, its]) => its.sinks));
      const merged = mergeStatuses(statuses);
      const alarms = [...options.alarms(), ...statuses.flatMap((one) => one.alarms)];
      const nowMs = clock.now();
      const statement = statementOf({
        startedMs: options.startedMs ?? nowMs,
        alarms,
        accounts: merged.accounts,
        sinks,
        gaps: merged.totals.gaps,
        unreadWindows: merged.totals.windows.unread,
        sinkBehindMs: options.sinkBehindMs,
        missing: missing.incomplete,
      });
      return {
        version: options.version,
        shard: null,
        nowMs,
        startedMs: options.startedMs ?? longestStart(statuses, nowMs),
        ...(statuses.length === 0 && statement.health === "good" ? NO_LANES : statement),
        alarms,
        ...merged,
        ...missing,
      };
    },
    rates: () =>
      mergeRates(
        options.lanes().map((one) => one.view.rates()),
        { bucketMs: 5000, fromMs: clock.now(), received: [], live: [], sent: {} },
      ),
    async organizations(query) {
      const whole = { ...query, offset: 0, limit: query.offset + query.limit };
      const { found, missing } = await all((one) => one.organizations(whole));
      return { ...mergeOrganizations(found, query), ...missing };
    },
    async calendar() {
      const { found, missing } = await all((one) => one.calendar());
      return { ...mergeCalendars(found, clock.now()), ...missing };
    },
    async windows(query) {
      const { found, missing } = await all((one) => one.windows(query));
      const windows = found.find((one) => one !== undefined);
      if (windows === undefined && missing.incomplete !== undefined) throw unknownYet(missing.incomplete);
      return windows;
    },
    async gaps(query) {
      const { found, missing } = await all((one) => one.gaps(query));
      return { ...mergeGaps(found, query), ...missing };
    },
    async sinks() {
      const { found, missing } = await all((one) => one.sinks());
      return { sinks: mergeSinks(found.flatMap(({ sinks }) => sinks)), ...missing };
    },
    async archives() {
      const { found, missing } = await all((one) => one.archives());
      return { archives: found.flatMap(({ archives }) => archives), ...missing };
    },
    async deadLetters(query) {
      const { before } = query;
      const { found, missing } = await all(async (one, lane) => {
        const bound = before === undefined || lane === undefined ? before : boundInLane(lane, before);
        return { lane, view: await one.deadLetters({ ...query, before: bound }) };
      });
      return { ...mergeDeadLetters(found, query), ...missing };
    },
    async deadLetter(number) {
      const { lane, id } = numberInLane(number);
      const its = options.lanes().find((one) => one.lane === lane);
      if (its !== undefined) {
        const letter = await its.view.deadLetter(id);
        return letter && { ...letter, id: numberInAll(lane, letter.id) };
      }
      if (lane >= (options.laneCount ?? 0)) return undefined;
      const owners = options.lanes().filter((one) => lanesOf(one).includes(lane));
      const gathered = await gather(owners.map((one) => asked(one, (remote) => remote.deadLetter(number))));
      const answer = gathered.answers.find(({ lanes }) => lanes.includes(lane));
      if (answer !== undefined) return answer.found;
      // The lane's own word, for example that the letter is damaged.
      const refused = gathered.failed.find(({ reason }) => !(reason instanceof SilentError));
      throw refused?.reason ?? unknownYet(incompleteText(gathered, [lane])!);
    },
    async drift(limit) {
      const { found, missing } = await all((one) => one.drift(limit));
      return { ...mergeDrift(found, limit), ...missing };
    },
    async recent(afterPage, limit) {
      const before = afterPage === seen.token ? seen.ends : new Map<number | undefined, number>();
      const lanes = await Promise.all(
        options.lanes().map(async (one) => ({
          lane: one.lane,
          recent: await one.view.recent(before.get(one.lane) ?? 0, limit).catch(() => undefined),
        })),
      );
      const known = lanes.flatMap(({ lane, recent }) => (recent === undefined ? [] : [{ lane, recent }]));
      const events = known.flatMap(({ recent }) => recent.events).sort((a, b) => a.fetchedMs - b.fetchedMs);
      seen = {
        token: seen.token + 1,
        ends: new Map(known.map(({ lane, recent }) => [lane, recent.endPage])),
      };
      const shown = events.slice(-limit);
      const cut = before.size === 0 ? 0 : events.length - shown.length;
      const more = known.reduce((sum, { recent }) => sum + recent.more, cut);
      return { endPage: seen.token, more, events: shown };
    },
  };
}

const NO_LANES = { health: "degraded" as const, headline: "No lane runs that could be asked." };

function lanesOf(one: LaneView): readonly number[] {
  return one.lane === undefined ? one.lanes : [one.lane];
}

function asked<Found>(
  one: LaneView,
  ask: (view: View, lane: number | undefined) => Promise<Found>,
): AskedLanes<Found> {
  const lanes = lanesOf(one);
  const { lane, view } = one;
  const ofOwn = async () => ({ lanes, found: await ask(view, lane) });
  return { lanes, answer: lane === undefined ? one.ask((its) => ask(its, undefined)) : ofOwn() };
}

/** It was not found, and it may be in a lane that did not answer. */
function unknownYet(incomplete: string): RouteError {
  return new RouteError(503, `${incomplete}. Ask again when every lane runs.`);
}

/** When the machine that has run longest was started, by our clock. */
function longestStart(statuses: readonly StatusView[], nowMs: number): number | null {
  const upMs = statuses.map((one) => (one.startedMs === null ? null : one.nowMs - one.startedMs));
  const longestMs = extreme(Math.max, ...upMs);
  return longestMs === null ? null : nowMs - longestMs;
}

function mergeGaps(list: readonly GapsView[], { limit }: GapsQuery): GapsView {
  const none = {
    gaps: 0,
    organizations: 0,
    durationMs: 0,
    events: 0,
    open: 0,
    openMs: 0,
    aside: 0,
    asideMs: 0,
  };
  return {
    totals: list.reduce((sum, { totals }) => addRecords(sum, totals), none),
    gaps: list
      .flatMap(({ gaps }) => gaps)
      .sort((a, b) => a.fromMs - b.fromMs)
      .slice(0, limit),
  };
}
