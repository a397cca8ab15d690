import { DecisionNeededError } from "../../core/errors.ts";
import type { ArchiveStore } from "../store/store.ts";
import { parseCheckpoint } from "./checkpoint.ts";
import { NoteError } from "./note.ts";

/*
 * The log in the store may be ahead of the state: after `restore` the state is an older copy. It does not know the days,
 * holds and erasures since then, so nothing may be written or answered by it.
 */

export const BEGIN_ANOTHER =
  "begin a new archive with another name, origin and key in an empty place (docs/archive.md says how); the old one stays as it is";

/** How many entries the log in the store has; 0 where there is none, or none of this origin. */
export async function entriesInStore(store: Pick<ArchiveStore, "read">, origin: string): Promise<number> {
  const bytes = await store.read("log/checkpoint");
  if (bytes === undefined) return 0;
  try {
    const found = parseCheckpoint(bytes);
    return found.origin === origin ? found.size : 0;
  } catch (error) {
    // A damaged checkpoint is a matter of `verify` and of the writer.
    if (error instanceof NoteError) return 0;
    throw error;
  }
}

/** For a command or a search that would answer from the state. */
export function olderState(place: string, inStore: number, inState: number): DecisionNeededError {
  return new DecisionNeededError(
    `The log in ${place} (${inStore} entries) is ahead of this state (${inState} entries): the state is new or an older copy, or another process writes there. An answer from this state would lack the days, holds and erasures since then.`,
    ["restore the newest state file", "stop the other process that writes there", BEGIN_ANOTHER],
  );
}
