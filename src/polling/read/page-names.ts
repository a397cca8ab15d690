import { IDENTITY_BYTES, type PreparedPage } from "../../core/prepare-page.ts";
import { RepeatedPageError } from "./source.ts";

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
  return {
    add(cursor, page) {
      if (cursor === null) {
        tokens.clear();
        names.clear();
      } else note(tokens, cursor);
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
  const identityAt = (index: number) =>
    identities.toString("hex", index * IDENTITY_BYTES, (index + 1) * IDENTITY_BYTES);
  return `${count} ${identityAt(0)} ${identityAt(count - 1)}`;
}
