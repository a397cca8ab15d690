import type { Config } from "../config/schema.ts";
import type { Clock } from "../core/clock.ts";
import type { Actions as RemoteActions } from "../core/view.ts";
import type { Delivery } from "../delivery/deliver.ts";
import type { State } from "../journal/database.ts";
import { createDeadLetters } from "../journal/dead-letters.ts";
import type { SqliteJournal } from "../journal/journal.ts";
import type { ViewOptions } from "../journal/view/view.ts";
import { VERSION } from "../version.ts";
import type { Account } from "./account.ts";
import type { Actions } from "./actions.ts";
import { DRIFT, definitionOf, sinkConfigs, TRACKER } from "./sinks.ts";

/** What a view needs to know of the config. */
export function viewOptions(config: Config, clock: Clock): ViewOptions {
  return {
    clock,
    version: VERSION,
    file: config.state,
    budgetBytes: config.journal.budget,
    accounts: config.accounts.map(({ name, retention }) => ({ name, retentionMs: retention })),
    sinks: sinkConfigs(config).map((sink) => {
      const { type, guarantee, promise } = definitionOf(sink);
      return { name: sink.name, type, guarantee, promise };
    }),
    internalReaders: [TRACKER, DRIFT],
  };
}

/** What may be asked for over HTTP. */
export function remoteActions(
  actions: Actions,
  db: State,
  journal: SqliteJournal,
  deliveries: readonly Delivery[],
  accounts: readonly Account[],
  signal: AbortSignal,
): RemoteActions {
  const letters = createDeadLetters(db);
  return {
    async replayDeadLetters(choice) {
      if ("sink" in choice) return letters.replay({ sink: choice.sink }, journal.pages);
      return choice.ids.reduce((count, id) => count + letters.replay({ id }, journal.pages), 0);
    },
    async dropDeadLetters(choice) {
      if ("sink" in choice) return letters.drop({ sink: choice.sink });
      return choice.ids.reduce((count, id) => count + letters.drop({ id }), 0);
    },
    async resumeSink(name) {
      const delivery = deliveries.find((candidate) => candidate.status().name === name);
      delivery?.tryNow();
      return delivery !== undefined;
    },
    async pollNow(account) {
      if (account !== undefined && !accounts.some(({ name }) => name === account)) return false;
      await actions.poll({}, signal);
      return true;
    },
  };
}
