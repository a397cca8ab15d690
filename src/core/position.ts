/**
 * How far a reader has read in one journal (R20): every event of the pages before `page`, and the first
 * `event` events of `page`. `hash` is the rolling hash of all pages up to and including `page`. A journal
 * accepts a position only if it contains that page with that hash.
 */
export interface Position {
  readonly journal: string;
  readonly page: number;
  readonly event: number;
  readonly hash: string;
}

/** The position before the first page of a journal. */
export function startOf(journal: string): Position {
  return { journal, page: 0, event: 0, hash: "" };
}

/** Negative when `a` is before `b`. Both must belong to the same journal. */
export function comparePositions(a: Position, b: Position): number {
  return a.page - b.page || a.event - b.event;
}

export function formatPosition(position: Position): string {
  return `${position.journal}:${position.page}:${position.event}:${position.hash}`;
}

export function parsePosition(text: string): Position | undefined {
  const match = /^([0-9a-f-]{1,64}):(\d{1,15}):(\d{1,9}):([0-9a-f]{0,64})$/.exec(text);
  if (!match) return undefined;
  return { journal: match[1]!, page: Number(match[2]), event: Number(match[3]), hash: match[4]! };
}
