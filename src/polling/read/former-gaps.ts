import { hash } from "node:crypto";
import {
  type FilledStretch,
  type Gap,
  gapNameOf,
  isUnnamed,
  type NewGap,
  ONE_EVENT,
} from "../../core/gap.ts";
import { wholeSecondAfter, wholeSecondBefore } from "../../core/time.ts";
import type { Pass, Stream, Window } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import type { TimeStretch } from "../plan/sweep-times.ts";
import type { PageRequest } from "./fetch-page.ts";
import { unnamedIn } from "./pass.ts";

/*
 * Gaps of unreadable events. One with a name is recognized by it. One without a name has only its place, between the
 * readable events around it, and its bytes. A service may send the same bytes in place of any event that it cannot
 * write, so several such gaps may look the same: each is one event.
 *
 * - A reading meets an event without a name: it is a new gap if there are fewer gaps of that place and those bytes than
 *   the reading has met. Identity fields that were asked for alone have other bytes than the whole event, so these say
 *   nothing about each other.
 * - The gap ends with a comparison that does not meet it any more, if an event of its place came since, or got a gap with
 *   a name. Otherwise the service may have deleted the event, and the gap stays.
 */

/** How the detail of a gap goes on after the event's name, where its bytes are kept. */
export function keptApart(bytes: Buffer): string {
  return `${KEPT_APART}${digest(bytes)}`;
}

const KEPT_APART = " is not readable; its bytes are kept apart as ";
const FIELDS_APART = " is not readable; its identity fields are kept apart as ";

/** The same of an event without a name whose identity fields alone were asked for. */
export function fieldsApart(bytes: Buffer): string {
  return `${FIELDS_APART}${digest(bytes)}`;
}

function isOfFields({ detail }: Pick<NewGap, "detail">): boolean {
  return detail.startsWith(`${ONE_EVENT}${FIELDS_APART}`);
}

/** A service may send the same bytes in place of any event that it cannot write: they show which one only with its id. */
function isShownBy(bytes: Buffer, id: string): boolean {
  return bytes.includes(id);
}

/** The name that an event with these bytes had when it was met before: a gap remembers it. */
export async function formerName({ journal, account }: PollContext, { query }: PageRequest, bytes: Buffer) {
  const fromMs = wholeSecondBefore(Date.parse(query.startTime));
  const toMs = query.endTime === undefined ? undefined : Date.parse(query.endTime);
  const kept = keptApart(bytes);
  for (const gap of await journal.gaps({ account, reasons: ["unreadable"], fromMs, toMs })) {
    if (isUnnamed(gap) || !gap.detail.endsWith(kept)) continue;
    const id = gap.detail.slice(gapNameOf("", "").length, -kept.length);
    if (isShownBy(bytes, id)) return { timeMs: gap.fromMs, owner: gap.organization ?? "", id, identity: id };
  }
  return undefined;
}

/** The gap of an event without a name whose name is known after all. */
export function withEventName(gap: NewGap, name: string, timeMs: number): NewGap {
  return { ...gap, fromMs: timeMs, toMs: timeMs + 1, detail: `${name}${gap.detail.slice(ONE_EVENT.length)}` };
}

/** The detail of the gap that an event with this id has where its name was not told. */
export function formerDetail(bytes: Buffer | undefined, id: string | undefined): string | undefined {
  if (bytes === undefined || id === undefined || !isShownBy(bytes, id)) return undefined;
  return `${ONE_EVENT}${keptApart(bytes)}`;
}

/** The name of a skipped event in its pass: without a name of its own, its bytes and its place. */
export function nameInPass(gap: NewGap): string {
  return isUnnamed(gap) ? `${bytesKey(gap)}@${gap.fromMs}-${gap.toMs}` : digest(gap.detail);
}

/**
 * What the gap of an event that a pass has met changes in the ledger. `former`: the detail of the gap that the event had
 * while its name was not told; that one ends.
 */
export async function changeBy(
  context: PollContext,
  stream: Stream,
  pass: Pass,
  gap: NewGap,
  former: string | undefined,
): Promise<GapChange> {
  if (!isUnnamed(gap) && former === undefined) return { gaps: [gap], filled: [] };
  const known = (await ownGaps(context, stream)).filter(isUnnamed);
  if (!isUnnamed(gap)) {
    const ended = known.find((other) => other.detail === former && overlap(other, gap));
    return { gaps: [gap], filled: ended === undefined ? [] : [endOf(stream, ended)] };
  }
  const own: Met = { ...gap, key: bytesKey(gap), isOfFields: isOfFields(gap) };
  const met = unnamedIn(pass).map((before) => ({ ...before, isOfFields: false }));
  const { unknown, metAgain } = matched([...met, own], known);
  return { gaps: unknown.includes(own) ? [gap] : [], filled: [], metAgain };
}

/** What the gaps of a comparison change in the ledger, where they have no name. Those with a name are `named`. */
export async function settledBy(
  context: PollContext,
  { stream }: Window,
  stretch: TimeStretch,
  gaps: readonly NewGap[],
  isReadable: (stretch: TimeStretch) => Promise<boolean>,
): Promise<Required<GapChange>> {
  const known = await ownGaps(context, stream, stretch);
  const met = gaps
    .filter(isUnnamed)
    .map((gap) => ({ ...gap, gap, key: bytesKey(gap), isOfFields: isOfFields(gap) }));
  const { unknown, left, metAgain } = matched(met, known.filter(isUnnamed));
  const filled: FilledStretch[] = [];
  const isKnown = ({ detail }: NewGap) => known.some((gap) => gap.detail === detail);
  const since = gaps.filter((gap) => !isKnown(gap)).map((gap) => ({ ...gap, foundMs: null }));
  const named: NamedSince[] = [...known, ...since].filter((gap) => !isUnnamed(gap));
  for (const gap of left) {
    const at = gap.cameMs === null ? named.findIndex((other) => mayName(other, gap)) : undefined;
    if (at === -1) continue;
    // The rest of its time is another window's: the event may be there, and not readable still.
    const rest = restOf(gap, stretch);
    if (rest !== undefined && !(await isReadable(rest))) continue;
    if (at !== undefined) named.splice(at, 1);
    filled.push(endOf(stream, gap));
  }
  const fresh = new Set<NewGap>(unknown.map(({ gap }) => gap));
  return { gaps: gaps.filter((gap) => !isUnnamed(gap) || fresh.has(gap)), filled, metAgain };
}

/** A part of the change of a ledger. */
interface GapChange {
  readonly gaps: readonly NewGap[];
  readonly filled: readonly FilledStretch[];
  readonly metAgain?: readonly number[];
}

/** A gap with a name; `foundMs`: null in one of this comparison. */
type NamedSince = Pick<Gap, "fromMs" | "toMs" | "detail" | "foundMs">;

/** Whether the event of a gap without a name may have got this one since. Its bytes tell, if they were those of the whole event. */
function mayName({ detail, foundMs, ...at }: NamedSince, unnamed: Gap): boolean {
  if (!overlap(at, unnamed) || (foundMs !== null && foundMs < unnamed.foundMs!)) return false;
  const kept = unnamed.detail.slice(ONE_EVENT.length);
  return isOfFields(unnamed) ? detail.includes(KEPT_APART) : detail.endsWith(kept);
}

/** An event without a name that a reading has met. */
interface Met extends TimeStretch {
  readonly key: string;
  readonly isOfFields: boolean;
}

/**
 * The events that no gap may be about, and the gaps that are about none of them. `metAgain`: gaps of events that are not
 * readable still, so what came into their time is something else.
 */
function matched<Event extends Met>(met: readonly Event[], gaps: readonly Gap[]) {
  const [unknown, left] = [new Set(met), new Set(gaps)];
  const metAgain: number[] = [];
  const take = (isSame: (event: Event, gap: Gap) => boolean) => {
    const pairs = met.flatMap((event) =>
      gaps.filter((gap) => isSame(event, gap)).map((gap) => ({ event, gap, share: shareOf(event, gap) })),
    );
    // The place fits best; of equal ones, a gap whose event may have come is the last to be taken.
    pairs.sort((a, b) => b.share - a.share || Number(a.gap.cameMs !== null) - Number(b.gap.cameMs !== null));
    for (const { event, gap, share } of pairs) {
      if (share === 0 || !unknown.has(event) || !left.has(gap)) continue;
      unknown.delete(event);
      left.delete(gap);
      if (gap.cameMs !== null) metAgain.push(gap.id!);
    }
  };
  take(({ key }, gap) => key === bytesKey(gap));
  take((event, gap) => event.isOfFields !== isOfFields(gap));
  return { unknown: [...unknown], left: [...left], metAgain };
}

/** How much of their places is the same. Neighbours have the readable event between them in common, and nothing else. */
function shareOf(one: TimeStretch, other: TimeStretch): number {
  const fromMs = Math.max(one.fromMs, other.fromMs);
  const toMs = Math.min(one.toMs, other.toMs);
  const commonMs = toMs - fromMs;
  const unitMs = fromMs % 1000 === 0 && toMs % 1000 === 0 ? 1000 : 1;
  const isWhole = [one, other].some((place) => place.fromMs === fromMs && place.toMs === toMs);
  if (commonMs <= 0 || (commonMs <= unitMs && !isWhole)) return 0;
  return commonMs / (Math.max(one.toMs, other.toMs) - Math.min(one.fromMs, other.fromMs));
}

/** The gaps of single events of the organizations of a stream. */
async function ownGaps({ journal }: PollContext, stream: Stream, at?: TimeStretch): Promise<readonly Gap[]> {
  const { account, provider, organizations, services } = stream;
  const gaps = await journal.gaps({ account, reasons: ["unreadable"], fromMs: at?.fromMs, toMs: at?.toMs });
  return gaps.filter(
    (gap) =>
      gap.provider === provider &&
      (organizations.length === 0
        ? gap.organization === null
        : organizations.includes(gap.organization ?? "")) &&
      gap.services.every((service) => services.includes(service)),
  );
}

/** A request covers whole seconds. */
function restOf(gap: Gap, { fromMs, toMs }: TimeStretch): TimeStretch | undefined {
  if (gap.fromMs < wholeSecondBefore(fromMs)) return { fromMs: gap.fromMs, toMs: gap.toMs };
  return gap.toMs > wholeSecondAfter(toMs) ? { fromMs: gap.fromMs, toMs: gap.toMs } : undefined;
}

function endOf(stream: Stream, { id, fromMs, toMs }: Gap): FilledStretch {
  return { stream, fromMs, toMs, reasons: ["unreadable"], id: id! };
}

/** An earlier version added a token. */
export function bytesKey({ detail }: Pick<NewGap, "detail">): string {
  return digest(detail.replace(/ \(place \w+\)$/, ""));
}

function overlap(left: TimeStretch, right: TimeStretch): boolean {
  return left.fromMs < right.toMs && right.fromMs < left.toMs;
}

export function digest(value: string | Uint8Array): string {
  return hash("sha256", value, "hex").slice(0, 16);
}
