import { formatDuration } from "./time.ts";
import { type SinkView, waitingText } from "./view/sinks.ts";

/** How a sink does, in one line: its state, how far it is behind in time, and what it refused (R40). */
export interface SinkHealth {
  readonly health: "good" | "degraded" | "bad";
  readonly line: string;
}

/** A sink that works off its last events is up to date for a person. */
const BEHIND_MS_MIN = 30_000;

export function sinkHealth(sink: SinkView, nowMs: number): SinkHealth {
  const parts = [
    stateText(sink, nowMs),
    ...behindText(sink),
    ...deadLetterText(sink),
    ...lastWriteText(sink, nowMs),
  ];
  return { health: levelOf(sink), line: `${parts.join("; ")}.` };
}

function levelOf({ state, reason, lagEvents, lagMs, deadLetters }: SinkView): SinkHealth["health"] {
  switch (state) {
    case "paused":
    case "stopped":
      return "bad";
    case "retrying":
    case "unknown":
      return "degraded";
    case "opening":
    case "running":
      return reason !== null || deadLetters > 0 || (lagEvents > 0 && lagMs >= BEHIND_MS_MIN)
        ? "degraded"
        : "good";
  }
}

function stateText({ state, sinceMs, reason }: SinkView, nowMs: number): string {
  const lasts = sinceMs === null ? "" : ` for ${formatDuration(Math.max(0, nowMs - sinceMs))}`;
  switch (state) {
    case "running":
      return reason === null ? "delivering" : "waiting for the destination";
    case "opening":
      return "connecting";
    case "unknown":
      return "no running process reports on it";
    case "retrying":
    case "paused":
    case "stopped":
      return `${state}${lasts}`;
  }
}

function behindText(sink: SinkView): string[] {
  const { type, state, lagEvents, lagMs } = sink;
  // Nothing waits for an archive that has stopped before it closes its days; that is not up to date.
  if (lagEvents === 0 && type === "archive" && state === "stopped") return [];
  if (lagEvents > 0) return [`behind by ${formatDuration(lagMs)} (${waitingText(sink)})`];
  return [type === "archive" ? "up to date; an event is archived when its day is closed" : "up to date"];
}

function deadLetterText({ deadLetters }: SinkView): string[] {
  if (deadLetters === 0) return [];
  return [`${deadLetters.toLocaleString("en")} dead ${deadLetters === 1 ? "letter" : "letters"}`];
}

function lastWriteText({ lastWriteMs }: SinkView, nowMs: number): string[] {
  if (lastWriteMs === null) return [];
  return [`last write ${formatDuration(Math.max(0, nowMs - lastWriteMs))} ago`];
}
