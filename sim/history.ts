import type { Disk } from "./disk.ts";
import type { ModelEvent } from "./events.ts";
import { type Plan, type Settings, type SinkPlan, START_MS } from "./plan.ts";
import type { ModelService } from "./service.ts";

export interface Interval {
  readonly fromMs: number;
  readonly toMs: number;
}

/** A destination during the life: its folder, and since when it gets events. */
export interface SinkLife {
  readonly plan: SinkPlan;
  readonly sinceMs: number;
  /** After a restored state the folder is left as it is, and a new one takes its place. */
  untilMs: number;
  /** Index in the first config, by which faults name it; null: it was added later. */
  readonly index: number | null;
}

/** The life so far, as the oracle needs it. */
export interface History {
  settings: Settings;
  readonly sinks: SinkLife[];
  /** When a process was running; the last one has no end yet. */
  readonly up: { fromMs: number; toMs: number }[];
  /** When sinks were last replaced after a restored backup. */
  replacedMs: number;
  /** Events that a state named as missing, or kept apart, before a backup replaced it, and that cannot be read again. */
  readonly namedBefore: Set<ModelEvent>;
  /** Delivered events that a restored backup did not know. */
  readonly forgotten: Set<ModelEvent>;
  /** The settings in the order of time. */
  readonly settingsSince: { readonly sinceMs: number; readonly settings: Settings }[];
  /** The config is another one from now on; sinks that are new or gone are noticed. */
  reconfigured(settings: Settings, nowMs: number): void;
  started(nowMs: number): void;
  ended(nowMs: number): void;
  readonly service: ModelService;
  readonly disk: Disk;
  /** What the sources show of an event, by its text: a portal and an organization may show the same one. */
  readonly byText: ReadonlyMap<string, readonly ModelEvent[]>;
  /** The lines of a file, and what follows the last of them. The disk never changes contents in place. */
  linesOf(content: Buffer): Lines;
}

export interface Lines {
  readonly lines: readonly string[];
  readonly rest: string;
}

function shownByText(events: readonly ModelEvent[]): Map<string, readonly ModelEvent[]> {
  const byNumber = new Map<number, ModelEvent[]>();
  for (const event of events) byNumber.set(event.number, [...(byNumber.get(event.number) ?? []), event]);
  return new Map(events.map(({ text, number }) => [text, byNumber.get(number)!]));
}

export function createHistory(plan: Plan, service: ModelService, disk: Disk): History {
  const known = new WeakMap<Buffer, Lines>();
  const history: History = {
    settings: plan.settings,
    sinks: plan.settings.sinks.map((sink, index) => ({
      plan: sink,
      sinceMs: Number.NEGATIVE_INFINITY,
      untilMs: Number.POSITIVE_INFINITY,
      index,
    })),
    up: [],
    replacedMs: Number.NEGATIVE_INFINITY,
    namedBefore: new Set(),
    forgotten: new Set(),
    settingsSince: [{ sinceMs: START_MS, settings: plan.settings }],
    service,
    disk,
    byText: shownByText(service.events),
    linesOf(content) {
      const before = known.get(content);
      if (before !== undefined) return before;
      const lines = content.toString("utf8").split("\n");
      const made = { rest: lines.pop()!, lines };
      known.set(content, made);
      return made;
    },
    reconfigured(settings, nowMs) {
      history.settings = settings;
      history.settingsSince.push({ sinceMs: nowMs, settings });
      const folders = new Set(settings.sinks.map(({ folder }) => folder));
      for (const sink of history.sinks)
        if (!folders.has(sink.plan.folder)) sink.untilMs = Math.min(sink.untilMs, nowMs);
      const known = new Set(history.sinks.map(({ plan: { folder } }) => folder));
      for (const sink of settings.sinks)
        if (!known.has(sink.folder))
          history.sinks.push({ plan: sink, sinceMs: nowMs, untilMs: Number.POSITIVE_INFINITY, index: null });
    },
    started(nowMs) {
      history.up.push({ fromMs: nowMs, toMs: Number.POSITIVE_INFINITY });
    },
    ended(nowMs) {
      history.up.at(-1)!.toMs = nowMs;
    },
  };
  return history;
}
