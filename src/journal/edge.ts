import { IDENTITY_BYTES, type PreparedPage, UNDATED_MS } from "../core/prepare-page.ts";
import { wholeSecondBefore } from "../core/time.ts";

/*
 * The memory of a pass about its earlier pages, by which an event on the next page is recognized as a repeat or
 * a twin (R10, R36). The service sorts by time, and may cut a fraction of a second off the start of a request. So
 * only events of the last page's last second can come again, and events without a readable time, which may be
 * anywhere. All of them are remembered, however many there are. Marks at identities that have twins are remembered
 * like the latter.
 *
 * An edge is a list of texts: `@` and the last millisecond, then one text for each page that has such events: `=`
 * for that second, `~` for those without a time, followed by identities and digests in base64. Passes of
 * the first build have `identity:digest` in hexadecimal instead.
 */
const ENTRY_BYTES = IDENTITY_BYTES + 4;

/** The digests of every identity in an edge; identities as latin1 text. */
export function seenIn(edge: readonly string[]): Map<string, number[]> {
  const seen = new Map<string, number[]>();
  const add = (identity: string, digest: number) => {
    const digests = seen.get(identity);
    if (digests === undefined) seen.set(identity, [digest]);
    else digests.push(digest);
  };
  for (const text of edge) {
    if (text.startsWith("@")) continue;
    if (text.startsWith("=") || text.startsWith("~")) {
      const entries = Buffer.from(text.slice(1), "base64");
      for (let at = 0; at < entries.length; at += ENTRY_BYTES)
        add(entries.toString("latin1", at, at + IDENTITY_BYTES), entries.readUInt32LE(at + IDENTITY_BYTES));
      continue;
    }
    const [identity, digest] = text.split(":") as [string, string];
    add(Buffer.from(identity, "hex").toString("latin1"), Number.parseInt(digest, 16));
  }
  return seen;
}

/** The edge after a page, given the one before it. */
export function edgeOf(page: PreparedPage, before: readonly string[]): readonly string[] {
  const lastMs = lastTimeMs(page);
  if (lastMs === undefined) return [...before, ...packed("~", page, undatedOf(page))];
  const secondMs = wholeSecondBefore(lastMs);
  const isSameSecond =
    before[0] === undefined ||
    !before[0].startsWith("@") ||
    wholeSecondBefore(Number(before[0].slice(1))) === secondMs;
  const kept = before.filter((text) => text.startsWith("~") || (isSameSecond && !text.startsWith("@")));
  const indexes: number[] = [];
  let index = page.scanned.count - 1;
  for (; index >= 0; index--) {
    const timeMs = page.timesMs[index]!;
    if (timeMs === UNDATED_MS) continue;
    if (wholeSecondBefore(timeMs) !== secondMs) break;
    indexes.push(index);
  }
  // Events of the pages before matter only while the page has no other second.
  const earlier = index < 0 ? kept : kept.filter((text) => text.startsWith("~"));
  return [`@${lastMs}`, ...earlier, ...packed("=", page, indexes), ...packed("~", page, undatedOf(page))];
}

/** In place of a digest: the identity has more than one event in this pass. No event is expected to have it. */
export const TWIN_MARK = 0;

/** The edge of a pass that begins anew because of these events. Marks stay until its end. */
export function markedEdge(
  page: PreparedPage,
  indexes: readonly number[],
  before: readonly string[],
): readonly string[] {
  const marks = [...marksIn(before), ...indexes.map((index) => identityTextAt(page, index))];
  const entries = Buffer.alloc(marks.length * ENTRY_BYTES);
  for (const [row, identity] of marks.entries()) {
    entries.write(identity, row * ENTRY_BYTES, "latin1");
    entries.writeUInt32LE(TWIN_MARK, row * ENTRY_BYTES + IDENTITY_BYTES);
  }
  return [`~${entries.toString("base64")}`];
}

function marksIn(edge: readonly string[]): string[] {
  return [...seenIn(edge)].filter(([, digests]) => digests.includes(TWIN_MARK)).map(([identity]) => identity);
}

function identityTextAt({ identities }: PreparedPage, index: number): string {
  return identities.toString("latin1", index * IDENTITY_BYTES, (index + 1) * IDENTITY_BYTES);
}

function lastTimeMs({ timesMs, scanned }: PreparedPage): number | undefined {
  for (let index = scanned.count - 1; index >= 0; index--)
    if (timesMs[index] !== UNDATED_MS) return timesMs[index];
  return undefined;
}

function undatedOf({ timesMs, undated }: PreparedPage): number[] {
  const indexes: number[] = [];
  if (undated > 0)
    for (let index = 0; index < timesMs.length; index++)
      if (timesMs[index] === UNDATED_MS) indexes.push(index);
  return indexes;
}

function packed(kind: "=" | "~", page: PreparedPage, indexes: readonly number[]): string[] {
  if (indexes.length === 0) return [];
  const entries = Buffer.alloc(indexes.length * ENTRY_BYTES);
  for (const [row, index] of indexes.entries()) {
    page.identities.copy(entries, row * ENTRY_BYTES, index * IDENTITY_BYTES, (index + 1) * IDENTITY_BYTES);
    entries.writeUInt32LE(page.digests[index]!, row * ENTRY_BYTES + IDENTITY_BYTES);
  }
  return [`${kind}${entries.toString("base64")}`];
}
