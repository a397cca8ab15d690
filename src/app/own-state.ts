import { isDiskTrouble } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import { damaged, openState, type State } from "../journal/database.ts";
import { claimState } from "../journal/owner.ts";
import { repairRows } from "../journal/repair-rows.ts";

/** Opens the state for the process that holds its lock. */
export async function openOwnState(file: string, log: Log): Promise<State> {
  const db = openState(file);
  try {
    const rows = repairRows(db);
    if (rows.length > 0)
      log.error(
        { repaired: rows.slice(0, 20), count: rows.length },
        "The state file was damaged; what is named here is repaired. Check the memory and the disk of this machine.",
      );
    await claimState(db);
    return db;
  } catch (error) {
    db.close();
    if (isDiskTrouble(error))
      throw new Error(
        `The state file ${file} cannot be changed, so nothing was read or delivered. Make room on its disk, and check that this user may write there`,
        { cause: error },
      );
    throw damaged(file, error);
  }
}
