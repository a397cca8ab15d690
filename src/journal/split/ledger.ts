import type { OwnerCounts } from "../../core/window.ts";
import type { Connection } from "../database.ts";
import type { Move } from "./move.ts";
import { copyOrganizations } from "./pages.ts";
import { copyRows } from "./rows.ts";

interface StreamRow {
  readonly id: number;
  readonly account: string;
  readonly provider: string | null;
  readonly organizations: string;
  readonly services: string;
}

/** A stream of the source, and the part of it that the new state reads. */
interface Part {
  readonly stream: number;
  readonly all: readonly string[];
  readonly own: readonly string[];
  /** The shard that has a group's first organization takes the group's statistics. */
  readonly isFirst: boolean;
}

/** Organizations, streams, windows and gaps of the shard. */
export function copyLedger(move: Move): void {
  const { source, owners } = move;
  copyOrganizations(move);
  const parts = copyStreams(move);
  const countHeld = heldCounter(source);
  copyRows(move, "windows", {
    keep: ({ stream }) => parts.has(stream as number),
    change(row) {
      const part = parts.get(row.stream as number)!;
      const moved = { id: null, stream: part.stream };
      return part.own.length === part.all.length
        ? moved
        : { ...moved, ...partOfGroup(row as unknown as WindowRow, part, countHeld) };
    },
  });
  copyRows(move, "gaps", {
    keep: ({ organization }) => owners.organization(organization as string),
    change: () => ({ id: null }),
  });
}

function copyStreams({ db, source, owners }: Move): ReadonlyMap<number, Part> {
  const known = db.prepare("SELECT id FROM streams WHERE key = ?").pluck();
  const insert = db.prepare(
    "INSERT INTO streams (account, provider, organizations, services, key) VALUES (?, ?, ?, ?, ?)",
  );
  const parts = new Map<number, Part>();
  const rows = source.prepare("SELECT id, account, provider, organizations, services FROM streams");
  for (const { id, account, provider, organizations, services } of rows.all() as StreamRow[]) {
    const all = JSON.parse(organizations) as string[];
    const own = all.filter((one) => owners.organization(one));
    if (all.length === 0 ? !owners.organization(null) : own.length === 0) continue;
    const list = JSON.stringify(own);
    const key = JSON.stringify([account, provider, list, services]);
    const stream =
      (known.get(key) as number | undefined) ??
      Number(insert.run(account, provider, list, services, key).lastInsertRowid);
    parts.set(id, { stream, all, own, isFirst: all.length === 0 || own[0] === all[0] });
  }
  return parts;
}

interface WindowRow {
  readonly from_ms: number;
  readonly to_ms: number;
  readonly state: string;
  readonly sweeps: number;
  readonly next_ms: number | null;
  readonly api_count: number | null;
  readonly held_count: number | null;
  readonly counts: string | null;
  readonly late: number;
  readonly repeated: number;
  readonly changed: number;
}

/**
 * A window of a smaller group. Its cursor belongs to the old query, so a pass begins anew (R1); what was read of
 * the group was read of its members too, so the state stays. The members' counts are those of the window, where it
 * has them by organization. Otherwise they are counted (R36): where the group's own counts agree and the identities
 * of all members are still held, they are those identities. Else they are not known, and a window that was compared
 * is compared again.
 */
function partOfGroup(row: WindowRow, part: Part, countHeld: CountHeld): Record<string, unknown> {
  const statistics = part.isFirst ? {} : { late: 0, repeated: 0, changed: 0 };
  const cut = { pass: null, ...statistics };
  if (row.counts !== null) return { ...cut, ...membersOf(JSON.parse(row.counts) as OwnerCounts, part) };
  if (row.api_count === null || row.held_count === null) return { ...cut, api_count: null, held_count: null };
  const total = countHeld(part.all, row.from_ms, row.to_ms);
  if (row.api_count === row.held_count && total === row.held_count) {
    const held = countHeld(part.own, row.from_ms, row.to_ms);
    return { ...cut, api_count: held, held_count: held };
  }
  const again = row.state === "read" || row.state === "sealed";
  return {
    ...cut,
    api_count: null,
    held_count: null,
    ...(again ? { sweeps: Math.max(0, row.sweeps - 1), next_ms: 0 } : {}),
  };
}

function membersOf(counts: OwnerCounts, { own }: Part): Record<string, unknown> {
  const members = Object.entries(counts).filter(([owner]) => own.includes(owner));
  return {
    api_count: members.reduce((sum, [, [api]]) => sum + api, 0),
    held_count: members.reduce((sum, [, [, held]]) => sum + held, 0),
    counts: own.length === 1 ? null : JSON.stringify(Object.fromEntries(members)),
  };
}

type CountHeld = (owners: readonly string[], fromMs: number, toMs: number) => number;

const ENTRY_BYTES = 24;
const TIME_OFFSET = 20;

/** Counts the identities of the source in a half-open stretch of time. */
function heldCounter(source: Connection): CountHeld {
  const overlapping = source.prepare(
    "SELECT first_ms AS firstMs, entries FROM identities WHERE owner = ? AND last_ms >= ? AND first_ms < ?",
  );
  return (owners, fromMs, toMs) => {
    let count = 0;
    for (const owner of owners)
      for (const row of overlapping.all(owner, fromMs, toMs) as { firstMs: number; entries: Buffer }[])
        for (let at = TIME_OFFSET; at < row.entries.length; at += ENTRY_BYTES) {
          const timeMs = row.firstMs + row.entries.readUInt32LE(at);
          if (timeMs >= fromMs && timeMs < toMs) count++;
        }
    return count;
  };
}
