import { IDENTITY_BYTES, type PreparedPage } from "../../core/prepare-page.ts";
import { RepeatedPageError } from "./source.ts";

/** Pages of one time that are alike, one after the other: an event may be there several times, but not so often. */
const ALIKE_MAX = 10;
/** More pages than that are forgotten, the oldest first. */
const PAGES_MAX = 10_000;

/**
 * The pages that a request has led to, token by token. A service whose tokens lead back to an earlier page would be
 * read without end (R33). Only memory: after a restart of the program the next round shows it.
 */
export interface PageTrail {
  /**
   * A page and the token that led to it; null begins a new trail. An event that was skipped has no page. Throws a
   * RepeatedPageError where either came before.
   */
  add(cursor: string | null, page: PreparedPage | undefined): void;
}

export function createPageTrail(): PageTrail {
  const tokens = new Set<string>();
  const names = new Set<string>();
  let last: string | undefined;
  let alike = 0;
  return {
    add(cursor, page) {
      if (cursor === null) {
        tokens.clear();
        names.clear();
        alike = 0;
      } else note(tokens, cursor);
      const content = page && contentOf(page);
      alike = content !== undefined && content === last ? alike + 1 : 0;
      last = content;
      if (alike > ALIKE_MAX) throw new RepeatedPageError();
      const name = page && nameOf(page);
      if (name !== undefined) note(names, name);
    },
  };
}

function note(seen: Set<string>, name: string): void {
  if (seen.has(name)) throw new RepeatedPageError();
  if (seen.size >= PAGES_MAX) seen.delete(seen.values().next().value!);
  seen.add(name);
}

/** Undefined where all events have one time: such pages of a service may look alike. */
export function nameOf({ identities, scanned: { count, timesMs } }: PreparedPage): string | undefined {
  if (count === 0 || !(timesMs[0]! < timesMs[count - 1]!)) return undefined;
  return `${count} ${identityAt(identities, 0)} ${identityAt(identities, count - 1)}`;
}

/** Differs also for events that share an identity; undefined for an empty page. */
function contentOf({ identities, digests, scanned: { count } }: PreparedPage): string | undefined {
  if (count === 0) return undefined;
  const last = count - 1;
  return `${count} ${identityAt(identities, 0)} ${digests[0]} ${identityAt(identities, last)} ${digests[last]}`;
}

function identityAt(identities: Buffer, index: number): string {
  return identities.toString("hex", index * IDENTITY_BYTES, (index + 1) * IDENTITY_BYTES);
}
