import type { Clock } from "../../core/clock.ts";
import { numberInAll, numberInLane, rangesText } from "../../core/shard.ts";
import { statementOf } from "../../core/statement.ts";
import type { GapsQuery, GapsView } from "../../core/view/gaps.ts";
import type { AlarmView, StatusView } from "../../core/view/status.ts";
import type { View } from "../../core/view.ts";
import {
  mergeCalendars,
  mergeDeadLetters,
  mergeDrift,
  mergeOrganizations,
  mergeRates,
} from "./merge-lists.ts";
import { addRecords, extreme, mergeSinks, mergeStatuses } from "./merge-status.ts";

/** One running lane, or without a number lanes of another machine. */
export interface LaneView {
  readonly lane: number | undefined;
  readonly view: View;
  /** Of another machine: its status, and the lanes that it is about. They may be fewer than it was asked for. */
  status?(): Promise<LanesStatus>;
}

export interface LanesStatus {
  readonly lanes: readonly number[];
  readonly status: StatusView;
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
 * answer; the status names them.
 */
export function createMachineView(options: MachineViewOptions): View {
  const { clock } = options;
  let seen: { readonly token: number; readonly ends: ReadonlyMap<number | undefined, number> } = {
    token: 0,
    ends: new Map(),
  };

  async function all<Result>(
    ask: (view: View, one: LaneView) => Promise<Result>,
  ): Promise<{ lane: number | undefined; found: Result }[]> {
    const asked = await Promise.all(
      options.lanes().map(async (one) => {
        const { lane, view } = one;
        try {
          return [{ lane, found: await ask(view, one) }];
        } catch (error) {
          const runsHere = options.lanes().some((other) => other.lane === lane && other.view === view);
          if (lane !== undefined && runsHere) throw error;
          return [];
        }
      }),
    );
    return asked.flat();
  }
  const found = async <Result>(ask: (view: View, one: LaneView) => Promise<Result>) =>
    (await all(ask)).map((one) => one.found);

  const view: View = {
    async status() {
      // At once: a silent machine is waited for only once.
      const [answers, sinks] = await Promise.all([found((_, one) => statusOfLanes(one)), view.sinks()]);
      const statuses = answers.map(({ status }) => status);
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
        missing: missingText(answers, options.laneCount),
      });
      return {
        version: options.version,
        shard: null,
        nowMs,
        startedMs: options.startedMs ?? longestStart(statuses, nowMs),
        ...(statuses.length === 0 && statement.health === "good" ? NO_LANES : statement),
        alarms,
        ...merged,
      };
    },
    rates: () =>
      mergeRates(
        options.lanes().map((one) => one.view.rates()),
        { bucketMs: 5000, fromMs: clock.now(), received: [], live: [], sent: {} },
      ),
    async organizations(query) {
      const whole = { ...query, offset: 0, limit: query.offset + query.limit };
      return mergeOrganizations(await found((one) => one.organizations(whole)), query);
    },
    calendar: async () => mergeCalendars(await found((one) => one.calendar()), clock.now()),
    async windows(query) {
      return (await found((one) => one.windows(query))).find((one) => one !== undefined);
    },
    gaps: async (query) => mergeGaps(await found((one) => one.gaps(query)), query),
    sinks: async () => mergeSinks((await found((one) => one.sinks())).flat()),
    archives: async () => (await found((one) => one.archives())).flat(),
    async deadLetters(query) {
      const { before: _, ...rest } = query;
      const lists = await all((one) => one.deadLetters(rest));
      return mergeDeadLetters(
        lists.map(({ lane, found: letters }) => ({ lane, view: letters })),
        query,
      );
    },
    async deadLetter(number) {
      const { lane, id } = numberInLane(number);
      const own = options.lanes().find((one) => one.lane === lane);
      const letter = await own?.view.deadLetter(id);
      if (letter !== undefined) return { ...letter, id: numberInAll(lane, letter.id) };
      const others = options.lanes().filter((one) => one.lane === undefined);
      const found = await Promise.all(
        others.map((one) => one.view.deadLetter(number).catch(() => undefined)),
      );
      return found.find((one) => one !== undefined);
    },
    drift: async (limit) => mergeDrift(await found((one) => one.drift(limit)), limit),
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
  return view;
}

const NO_LANES = { health: "degraded" as const, headline: "No lane runs that could be asked." };

async function statusOfLanes(one: LaneView): Promise<LanesStatus> {
  if (one.status !== undefined) return one.status();
  return { lanes: one.lane === undefined ? [] : [one.lane], status: await one.view.status() };
}

/** Names the lanes of which no status has come. */
function missingText(answers: readonly LanesStatus[], laneCount = 0): string | undefined {
  const known = new Set(answers.flatMap(({ lanes }) => lanes));
  const missing = Array.from({ length: laneCount }, (_, lane) => lane).filter((lane) => !known.has(lane));
  if (missing.length === 0) return undefined;
  const [which, whose] = missing.length === 1 ? ["lane", "its"] : ["lanes", "their"];
  return `No machine answers for ${which} ${rangesText(missing)}: ${whose} organizations are missing in all numbers`;
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
