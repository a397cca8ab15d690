import type Database from "better-sqlite3";
import type { Change } from "../core/change.ts";

/** Changes of one state file, in the order in which they were asked for. */
export function createChange(db: Database.Database): Change {
  const transaction = db.transaction((work: () => unknown) => work());
  let last: Promise<unknown> = Promise.resolve();
  return <Result>(work: () => Result): Promise<Result> => {
    const turn = last.then(() => transaction.immediate(work) as Result);
    last = turn.catch(() => {});
    return turn;
  };
}
