import type { Lateness } from "../options.ts";
import { createRandom, type Random } from "../random.ts";
import type { EventStore } from "../store/event-store.ts";
import { sink } from "../store/select.ts";
import { createTimestampWriter, type FractionDigits } from "../timestamps.ts";
import type { Session } from "./sessions.ts";

export interface TrafficOptions {
  readonly eventBytes: number;
  readonly lateness: Lateness | null;
  readonly futureShare: number;
}

/** Writes events into the store, one per moment; moments must not go back. */
export interface Traffic {
  /** `latestMs` bounds stamps that lie ahead of their moment. `same` repeats the last timestamp. */
  emit(moment: { ms: number; ns: number; same: boolean; latestMs: number }): number;
}

interface Waiting {
  readonly dueMs: number;
  readonly session: Session;
}

/** Mean size of events before padding, measured over the plots. */
const plainBytes = 932;
const futureMsMax = 600_000;

export function createTraffic(
  random: Random,
  store: EventStore,
  startSession: () => Session,
  options: TrafficOptions,
): Traffic {
  const writeTimestamp = createTimestampWriter();
  const waiting: Waiting[] = [];
  const services = new Map<string, number>();
  let lastText = "";
  let last = { ms: Number.NEGATIVE_INFINITY, ns: 0, digits: 9 as FractionDigits };

  /** The step that is due, of a session under way, or the first step of a new one. */
  function nextStep(nowMs: number): Session {
    if (waiting.length === 0 || waiting[0]!.dueMs > nowMs) return startSession();
    const { session } = waiting[0]!;
    const end = waiting.pop()!;
    if (waiting.length > 0) {
      waiting[0] = end;
      sink(waiting, 0, earlier);
    }
    return session;
  }

  function followUp(session: Session, nowMs: number): void {
    session.scene.step++;
    if (session.scene.step >= session.steps.length) return;
    waiting.push({ dueMs: nowMs + random.exponential(session.pauseMs), session });
    for (let child = waiting.length - 1; child > 0; ) {
      const parent = (child - 1) >> 1;
      if (!earlier(waiting[child]!, waiting[parent]!)) break;
      [waiting[child], waiting[parent]] = [waiting[parent]!, waiting[child]!];
      child = parent;
    }
  }

  /** 0, 3, 8 or 9 digits, as far as cutting digits off keeps the order of time. */
  function stamp(ms: number, ns: number, same: boolean): { ms: number; ns: number; digits: FractionDigits } {
    if (same && last.ms !== Number.NEGATIVE_INFINITY) return last;
    const style = random.below(10);
    const second = Math.floor(ms / 1000) * 1000;
    if (style < 2 && second > last.ms) return { ms: second, ns: 0, digits: 0 };
    if (style < 7 && ms > last.ms) return { ms, ns: 0, digits: 3 };
    if (style < 8 && ms > last.ms) return { ms, ns: ns - (ns % 10), digits: 8 };
    return { ms, ns: ms === last.ms ? Math.max(ns, last.ns) : ns, digits: 9 };
  }

  function numberOf(service: string): number {
    const known = services.get(service);
    if (known !== undefined) return known;
    const number = store.serviceNumber(service);
    services.set(service, number);
    return number;
  }

  function emit(moment: { ms: number; ns: number; same: boolean; latestMs: number }): number {
    const session = nextStep(moment.ms);
    session.scene.nowMs = moment.ms;
    const draft = session.steps[session.scene.step]!(session.scene);
    const at = stamp(moment.ms, moment.ns, moment.same);
    last = at;
    let ms = at.ms;
    if (random.chance(options.futureShare))
      ms += Math.min(random.below(futureMsMax), Math.max(0, Math.floor(moment.latestMs - ms)));
    const service = numberOf(draft.service);
    const after = `${draft.after}${padding(random, options.eventBytes)}}`;
    let { ns, digits } = at;
    let text = `${draft.before}${writeTimestamp(ms, ns, digits)}${after}`;
    if (text === lastText) {
      // Events without an id are distinguished by their bytes alone. The service shows no two equal ones.
      ns = (ns + 1) % 1_000_000;
      digits = 9;
      text = `${draft.before}${writeTimestamp(ms, ns, digits)}${after}`;
    }
    lastText = text;
    followUp(session, moment.ms);
    return store.add(text, {
      ms,
      ns,
      visibleAt: moment.ms + delay(random, options.lateness),
      organization: session.scene.tenant.number,
      service,
    });
  }

  return { emit };
}

function earlier(a: Waiting, b: Waiting): boolean {
  return a.dueMs < b.dueMs;
}

const fillerRandom = createRandom(16);
const filler = Array.from({ length: 683 }, () => fillerRandom.hex24()).join("");

/** A field that no document knows, as long as it takes to reach the wanted mean size. */
function padding(random: Random, eventBytes: number): string {
  const missing = eventBytes - plainBytes - 20;
  if (missing <= 0) return "";
  const bytes = Math.floor(missing * (0.5 + random.float()));
  if (bytes <= 8192) {
    const from = random.below(8192);
    return `,"trace_context":"${filler.slice(from, from + bytes)}"`;
  }
  return `,"trace_context":"${filler.repeat(Math.ceil(bytes / filler.length)).slice(0, bytes)}"`;
}

function delay(random: Random, lateness: Lateness | null): number {
  if (lateness === null) return 0;
  const which = random.float();
  if (which < lateness.tailShare) return random.below(lateness.tailMs);
  if (which < lateness.tailShare + lateness.lateShare) return random.below(lateness.lateMs);
  return random.exponential(lateness.typicalMs);
}
