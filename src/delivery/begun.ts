import type { FormatSettings } from "../core/format.ts";
import type { JournalReader } from "../core/journal.ts";
import { comparePositions, formatPosition, type Position } from "../core/position.ts";
import type { SinkState } from "../core/sink.ts";
import type { SinkRoute } from "./filter.ts";

/*
 * Batches that were begun and are not committed (R19). Some of them may be stored. Each is completed with the settings
 * that it was begun with, so these are durable with its bounds, for each type of sink on its own: a sink of another type
 * under the same name has another destination, and the former one may come back.
 */

/** What decides the events, the names and the bytes of a batch. JSON. */
export interface BatchSettings {
  /** The sink's layout. */
  readonly layout?: SinkState | undefined;
  readonly route?: SinkRoute | undefined;
  readonly format?: FormatSettings | undefined;
  /** The fields of the sink's config that are its `batchFields`. */
  readonly fields?: SinkState | undefined;
}

/** What sinks of one type have begun. Bounds that the reader no longer has are committed. */
interface BegunByType extends BatchSettings {
  readonly type: string;
  readonly bounds: readonly string[];
}

/** The part of a reader's state that tells of them. Older versions stored one type, or none, for all bounds. */
export interface BegunState {
  readonly begun?:
    | readonly BegunByType[]
    | { readonly type: string; readonly route?: SinkRoute | undefined }
    | undefined;
  readonly layout?: SinkState | undefined;
}

/** What sinks of this type have begun; the bounds are in order, and there is at least one. */
interface OpenBatches {
  readonly settings: BatchSettings;
  readonly bounds: readonly Position[];
  /** The last of the bounds. */
  readonly to: Position;
}

type Held = Pick<JournalReader, "bounds" | "state">;

/** Undefined where sinks of this type have begun nothing that is not committed. */
export function begunBy(reader: Held, type: string): OpenBatches | undefined {
  const own = begunIn(reader, type).find((each) => each.type === type);
  if (own === undefined) return undefined;
  const bounds = openBounds(reader, own);
  const to = bounds.at(-1);
  if (to === undefined) return undefined;
  const { type: _type, bounds: _bounds, ...settings } = own;
  return { settings, bounds, to };
}

/** The layout of the batches under way, and where the last of them ends. */
export function unfinishedOf(reader: Held, type: string) {
  const { settings, to } = begunBy(reader, type) ?? {};
  return to && settings?.layout && { to, layout: settings.layout };
}

/** The bounds and the state with one more batch; undefined where they have it. What was begun keeps its settings. */
export function withBegun(reader: Held, type: string, to: Position, now: BatchSettings) {
  const { bounds, state } = reader;
  const earlier = begunBy(reader, type);
  const { layout, route, format, fields } = earlier?.settings ?? {};
  const own = {
    type,
    layout: layout ?? now.layout,
    route: route ?? now.route,
    format: format ?? now.format,
    fields: fields ?? now.fields,
    bounds: added(earlier?.bounds ?? [], to).map(formatPosition),
  };
  const others = begunIn(reader, type).filter(
    (each) => each.type !== type && openBounds(reader, each).length > 0,
  );
  const { begun, layout: _layout, ...rest } = (state ?? {}) as BegunState;
  const all = added(bounds, to);
  const isHeld = all.length === bounds.length && isEqual(begun, [...others, own]);
  return isHeld ? undefined : { bounds: all, state: { ...rest, begun: [...others, own] } as SinkState };
}

/** The bounds and the state without what sinks of this type have begun: nothing of it is stored. */
export function withoutBegun(reader: Held, type: string) {
  const { begun: _begun, layout: _layout, ...rest } = (reader.state ?? {}) as BegunState;
  const others = begunIn(reader, type).filter((each) => each.type !== type);
  const kept = new Set(others.flatMap(({ bounds }) => bounds));
  return {
    bounds: reader.bounds.filter((bound) => kept.has(formatPosition(bound))),
    state: { ...rest, begun: others } as SinkState,
  };
}

function begunIn({ bounds, state }: Held, type: string): readonly BegunByType[] {
  const { begun, layout } = (state ?? {}) as BegunState;
  if (isList(begun)) return begun;
  return [{ type: begun?.type ?? type, layout, route: begun?.route, bounds: bounds.map(formatPosition) }];
}

function isList(begun: BegunState["begun"]): begun is readonly BegunByType[] {
  return Array.isArray(begun);
}

function openBounds({ bounds }: Held, { bounds: own }: BegunByType): Position[] {
  return bounds.filter((bound) => own.includes(formatPosition(bound)));
}

function added(bounds: readonly Position[], to: Position): readonly Position[] {
  if (bounds.some((bound) => comparePositions(bound, to) === 0)) return bounds;
  return [...bounds, to].toSorted(comparePositions);
}

/** Whether a batch was begun with settings that are not those of now. What is not known is not other. */
export function isOther(begun: BatchSettings, now: BatchSettings): boolean {
  const differs = (name: keyof BatchSettings) =>
    begun[name] !== undefined && now[name] !== undefined && !isEqual(begun[name], now[name]);
  return differs("layout") || differs("route") || differs("format") || differs("fields");
}

/** As they are stored. */
export function isEqual(left: unknown, right: unknown): boolean {
  return left === right || JSON.stringify(left) === JSON.stringify(right);
}
