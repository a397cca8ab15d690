import { createTask, parse, validateDetailed } from "node-cron";
import { DAY_MS } from "../core/time.ts";

/**
 * Schedules are read on the wall clock of their time zone: every date and time on that clock runs once.
 * Where the clock jumps ahead, what falls into the gap runs at the jump; where it falls back, the first of
 * the two counts (R28).
 */
export interface Run {
  /** The date and time on the wall clock, `2026-03-29T02:30`. */
  readonly local: string;
  /** When that is. */
  readonly ms: number;
}

/** No wall clock is further from UTC than this. */
const OFFSET_MS_MAX = 15 * 3_600_000;

/** The runs in (afterMs, untilMs], rising, one for each instant. */
export function dueRuns(expression: string, timeZone: string, afterMs: number, untilMs: number): Run[] {
  const zone = zoneOf(timeZone);
  const byInstant = new Map<number, Run>();
  for (const wallMs of wallTimes(expression, afterMs - OFFSET_MS_MAX, untilMs + OFFSET_MS_MAX)) {
    const ms = instantOf(wallMs, zone);
    if (ms <= afterMs || ms > untilMs || byInstant.has(ms)) continue;
    byInstant.set(ms, { local: new Date(wallMs).toISOString().slice(0, 16), ms });
  }
  return [...byInstant.values()].sort((a, b) => a.ms - b.ms);
}

/** The next run after a time, looked for a year ahead, first in the near future. */
export function nextRun(expression: string, timeZone: string, afterMs: number): Run | undefined {
  for (let day = 0, days = 1; day < 366; day += days, days = Math.min(days * 2, 32)) {
    const fromMs = afterMs + day * DAY_MS;
    const [run] = dueRuns(expression, timeZone, fromMs, fromMs + days * DAY_MS);
    if (run !== undefined) return run;
  }
  return undefined;
}

/** The times that the expression names on a wall clock, written as if that clock were UTC. */
function* wallTimes(expression: string, fromMs: number, toMs: number): Generator<number> {
  const fields = parse(expression);
  const task = createTask(expression, () => {}, { timezone: "UTC" });
  const timeOfDayMs = (hour: number, minute: number) => (hour * 60 + minute) * 60_000;
  // A time of day that the expression has, to ask whether it has the day.
  const probeMs = timeOfDayMs(fields.hour[0]!, fields.minute[0]!) + fields.second[0]! * 1000;
  try {
    for (let dayMs = Math.floor(fromMs / DAY_MS) * DAY_MS; dayMs <= toMs; dayMs += DAY_MS) {
      if (!task.match(new Date(dayMs + probeMs))) continue;
      for (const hour of fields.hour) {
        for (const minute of fields.minute) {
          const wallMs = dayMs + timeOfDayMs(hour, minute);
          if (wallMs >= fromMs && wallMs <= toMs) yield wallMs;
        }
      }
    }
  } finally {
    void task.destroy();
  }
}

/** When a wall clock shows this time, first; where it never does, the moment of the jump over it. */
function instantOf(wallMs: number, zone: Zone): number {
  const before = wallMs - zone.offsetMs(wallMs - DAY_MS);
  const after = wallMs - zone.offsetMs(wallMs + DAY_MS);
  const candidates = [Math.min(before, after), Math.max(before, after)];
  const shown = candidates.find((ms) => ms + zone.offsetMs(ms) === wallMs);
  return shown ?? jumpBetween(candidates[0]! - DAY_MS, candidates[1]! + DAY_MS, wallMs, zone);
}

/** The first whole minute at which the wall clock is past a time that it never shows. */
function jumpBetween(fromMs: number, toMs: number, wallMs: number, zone: Zone): number {
  let low = Math.floor(fromMs / 60_000);
  let high = Math.ceil(toMs / 60_000);
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (middle * 60_000 + zone.offsetMs(middle * 60_000) > wallMs) high = middle;
    else low = middle;
  }
  return high * 60_000;
}

interface Zone {
  /** How far the wall clock is ahead of UTC at an instant. */
  offsetMs(ms: number): number;
}

function zoneOf(timeZone: string): Zone {
  const format = formatOf(timeZone);
  return {
    offsetMs(ms) {
      const parts = format.formatToParts(ms);
      const field = (type: string) => Number(parts.find((part) => part.type === type)?.value);
      const date = [field("year"), field("month") - 1, field("day")] as const;
      const wallMs = Date.UTC(...date, field("hour"), field("minute"), field("second"));
      return wallMs - Math.floor(ms / 1000) * 1000;
    },
  };
}

function formatOf(timeZone: string): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat("en-US", {
    timeZone,
    hourCycle: "h23",
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
    second: "numeric",
  });
}

/** The fault of a schedule in words; undefined when there is none. */
export function scheduleProblem(expression: string): string | undefined {
  const { valid, errors, fields } = validateDetailed(expression);
  if (!valid || fields === undefined) {
    const what = errors.map(({ message }) => message).join("; ");
    return `write a cron expression such as 0 2 * * * (${what || "not understood"})`;
  }
  if (fields.second.length > 1 || fields.second[0] !== 0)
    return "a schedule has whole minutes: leave the field of seconds out, or write 0 there";
  return undefined;
}

export function timeZoneProblem(timeZone: string): string | undefined {
  try {
    formatOf(timeZone);
    return undefined;
  } catch {
    return `${JSON.stringify(timeZone)} is no time zone: write one such as Europe/Berlin or UTC`;
  }
}
