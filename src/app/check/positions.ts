import type { Config } from "../../config/schema.ts";
import type { State } from "../../journal/database.ts";
import { placesOf } from "../../journal/reader-row.ts";
import { MisplacedSinksError, refuseMisplaced } from "../sinks.ts";

/** Throws where the next start with this config would be refused because of its sinks (R14). */
export function refuseMismatch(config: Config, db: State, isRunning: boolean): void {
  const { names, isEmpty, settings } = placesOf(db);
  try {
    refuseMisplaced(config, names, isEmpty, settings);
  } catch (error) {
    if (!isRunning || !(error instanceof MisplacedSinksError)) throw error;
    throw new MisplacedSinksError(`${error.message}\n${RUNNING}`);
  }
}

/** The running process would refuse the commands, because its own config still has the sink. */
const RUNNING =
  "A process is running that was started with another config. Stop it before you run a command named here, and start it again afterwards.";
