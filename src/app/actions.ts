import { z } from "zod";
import type { Config } from "../config/schema.ts";
import type { Clock } from "../core/clock.ts";
import { explain, UsageError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import type { Delivery } from "../delivery/deliver.ts";
import { resolutionOf } from "../delivery/position.ts";
import type { createRequests } from "../journal/command-queue.ts";
import type { State } from "../journal/database.ts";
import { createDeadLetters } from "../journal/dead-letters.ts";
import type { SqliteJournal } from "../journal/journal.ts";
import type { Account } from "./account.ts";

const letters = z.strictObject({
  sink: z.string().optional(),
  reason: z.string().optional(),
  id: z.number().int().optional(),
});
const stretch = z.strictObject({
  account: z.string().optional(),
  organizations: z.array(z.string()).optional(),
  services: z.array(z.string()).optional(),
  fromMs: z.number(),
  toMs: z.number(),
  sink: z.string().optional(),
});

/** What a person can have done, from the command line or over HTTP; each gives a sentence about what was done. */
export const ACTIONS = {
  replay: letters,
  drop: letters,
  resume: z.strictObject({ sink: z.string(), from: z.enum(["destination", "state", "beginning", "now"]) }),
  rename: z.strictObject({ from: z.string(), to: z.string() }),
  forget: z.strictObject({ sink: z.string() }),
  backfill: stretch,
  reconcile: stretch,
  poll: z.strictObject({}),
} as const;

export type ActionKind = keyof typeof ACTIONS;
export type ActionBody<Kind extends ActionKind> = z.output<(typeof ACTIONS)[Kind]>;
export type Actions = {
  [Kind in ActionKind]: (body: ActionBody<Kind>, signal: AbortSignal) => Promise<string>;
};

export interface ActionParts {
  readonly config: Config;
  readonly db: State;
  readonly journal: SqliteJournal;
  readonly accounts: readonly Account[];
  readonly deliveries: readonly Delivery[];
  readonly clock: Clock;
}

export function createActions(parts: ActionParts): Actions {
  const { config, db, journal, accounts, deliveries } = parts;
  const deadLetters = createDeadLetters(db);
  const sinkNames = () => deliveries.map((delivery) => delivery.status().name);
  return {
    async replay(filter) {
      let count = 0;
      for (
        let turn = deadLetters.replay(filter, journal.pages);
        turn > 0;
        turn = deadLetters.replay(filter, journal.pages)
      )
        count += turn;
      return `${count} dead letters were given back to their sinks.`;
    },
    drop: async (filter) => `${deadLetters.drop(filter)} dead letters were dropped for good.`,
    async resume({ sink, from }, signal) {
      const delivery = deliveries.find((candidate) => candidate.status().name === sink);
      if (delivery === undefined) throw noSuchSink(sink, sinkNames());
      await delivery.resolve(resolutionOf(from), signal);
      return `The sink "${sink}" goes on from ${from === "state" ? "where the state says" : `the ${from}`}.`;
    },
    async rename({ from, to }) {
      refuseInUse(config, from);
      const known = journal.readers.names();
      if (!known.includes(from))
        throw new UsageError(
          `The state holds no position of a sink "${from}": there are ${known.join(", ")}.`,
        );
      if (known.includes(to))
        throw new UsageError(
          `The state already holds a position of a sink "${to}": forget that one first, or choose another name.`,
        );
      journal.readers.rename(from, to);
      return `The position of "${from}" is kept under "${to}" now.`;
    },
    async forget({ sink }) {
      refuseInUse(config, sink);
      if (!journal.readers.names().includes(sink))
        throw new UsageError(`The state holds no position of a sink "${sink}".`);
      journal.readers.forget(sink);
      return `The position and the dead letters of "${sink}" are gone.`;
    },
    async backfill({ account: name, organizations, sink, ...wanted }, signal) {
      if (sink !== undefined && !sinkNames().includes(sink)) throw noSuchSink(sink, sinkNames());
      let count = 0;
      const request = {
        ...wanted,
        organizations: organizations?.map((id) => id.toLowerCase()),
        reader: sink ?? null,
      };
      for (const account of chosen(accounts, name)) count += await account.poller.addHistory(request, signal);
      requireKnown(parts, request.organizations);
      return count === 0
        ? "Nothing to read: the ledger covers that stretch already (use `reconcile` to compare it again)."
        : `${count} windows were added to be read.`;
    },
    async reconcile({ account: name, organizations: asked, fromMs, toMs }, signal) {
      const organizations = asked?.map((id) => id.toLowerCase());
      let count = 0;
      for (const account of chosen(accounts, name))
        count += await account.poller.reconcile({ fromMs, toMs, organizations }, signal);
      requireKnown(parts, organizations);
      return `${count} windows are compared with the service again, now.`;
    },
    async poll() {
      for (const account of accounts) account.poller.planNow();
      return "Every account is planned and polled anew.";
    },
  };
}

function noSuchSink(name: string, known: readonly string[]): UsageError {
  return new UsageError(`There is no sink "${name}" in the config: there are ${known.join(", ")}.`);
}

function refuseInUse(config: Config, name: string): void {
  if (!(config.sinks as unknown as { name: string }[]).some((sink) => sink.name === name)) return;
  throw new UsageError(
    `The sink "${name}" is in the config: take it out, or give it its new name there, first.`,
  );
}

/** An organization that no account has ever seen is a mistake to tell, not an empty answer. */
function requireKnown({ db, config }: ActionParts, organizations: readonly string[] | undefined): void {
  const isListed = db.prepare("SELECT 1 FROM organizations WHERE id = ?").pluck();
  const providers = config.accounts.map(({ provider }) => provider?.toLowerCase());
  const unknown = (organizations ?? []).filter(
    (id) => !providers.includes(id) && isListed.get(id) === undefined,
  );
  if (unknown.length === 0) return;
  throw new UsageError(
    `No account has seen the organization ${unknown.join(", ")}: "tidemark status --top 1000" lists those that are known.`,
  );
}

function chosen(accounts: readonly Account[], name: string | undefined): readonly Account[] {
  if (name === undefined) return accounts;
  const found = accounts.filter((account) => account.name === name);
  if (found.length === 0)
    throw new UsageError(
      `There is no account "${name}": there are ${accounts.map((account) => account.name).join(", ")}.`,
    );
  return found;
}

/** Takes up what changing commands have left for the running process (R15). */
export async function takeUpRequests(
  requests: ReturnType<typeof createRequests>,
  actions: Actions,
  log: Log,
  signal: AbortSignal,
): Promise<void> {
  for (const { id, kind, body } of requests.open()) {
    try {
      requests.finish(id, { ok: true, message: await perform(actions, kind, body, signal) });
    } catch (error) {
      if (signal.aborted) return;
      log.warn({ err: error, kind }, "A request could not be carried out.");
      requests.finish(id, { ok: false, message: explain(error) });
    }
  }
}

export async function perform(
  actions: Actions,
  kind: string,
  body: unknown,
  signal: AbortSignal,
): Promise<string> {
  if (!Object.hasOwn(ACTIONS, kind)) throw new UsageError(`There is no action "${kind}".`);
  const parsed = ACTIONS[kind as ActionKind].parse(body);
  return (actions[kind as ActionKind] as (body: unknown, signal: AbortSignal) => Promise<string>)(
    parsed,
    signal,
  );
}
