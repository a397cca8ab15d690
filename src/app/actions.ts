import { z } from "zod";
import type { Config } from "../config/schema.ts";
import type { Clock } from "../core/clock.ts";
import { explain, UsageError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import { newWindow, type Window } from "../core/window.ts";
import type { Delivery } from "../delivery/deliver.ts";
import { resolutionOf } from "../delivery/position.ts";
import type { State } from "../journal/database.ts";
import { createDeadLetters } from "../journal/dead-letters.ts";
import type { SqliteJournal } from "../journal/journal.ts";
import type { createRequests } from "../journal/requests.ts";
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
      if (delivery === undefined)
        throw new UsageError(
          `There is no sink "${sink}" in the config: there are ${sinkNames().join(", ")}.`,
        );
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
      let count = 0;
      const request = {
        ...wanted,
        organizations: organizations?.map((id) => id.toLowerCase()),
        reader: sink ?? null,
      };
      for (const account of chosen(accounts, name)) count += await account.poller.addHistory(request, signal);
      return count === 0
        ? "Nothing to read: the ledger covers that stretch already (use `reconcile` to compare it again)."
        : `${count} windows were added to be read.`;
    },
    async reconcile(wanted) {
      let count = 0;
      for (const account of chosen(accounts, wanted.account))
        count += await sweepAgain(parts, account, wanted);
      return `${count} windows are compared with the service again, now.`;
    },
    async poll() {
      for (const account of accounts) account.poller.planNow();
      return "Every account is planned and polled anew.";
    },
  };
}

function refuseInUse(config: Config, name: string): void {
  if (!(config.sinks as unknown as { name: string }[]).some((sink) => sink.name === name)) return;
  throw new UsageError(
    `The sink "${name}" is in the config: take it out, or give it its new name there, first.`,
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

/** Windows inside the stretch are due now, and compared by identities as for sealing. */
async function sweepAgain(
  { journal, config, clock }: ActionParts,
  account: Account,
  wanted: ActionBody<"reconcile">,
): Promise<number> {
  const { fromMs, toMs } = wanted;
  const ids =
    wanted.organizations === undefined
      ? undefined
      : new Set(wanted.organizations.map((id) => id.toLowerCase()));
  const windows = (await journal.windows({ account: account.name, fromMs, toMs })).filter(
    (window) =>
      !window.live &&
      window.reader === null &&
      (window.state === "read" || window.state === "sealed" || window.state === "expired") &&
      (ids === undefined || window.stream.organizations.some((id) => ids.has(id))),
  );
  const sweeps = config.polling.sweeps.length - 1;
  const put: Window[] = windows
    .filter((window) => window.state !== "expired")
    .map((window) => ({
      ...window,
      state: "read",
      sweeps: Math.min(window.sweeps, sweeps),
      nextMs: 0,
      apiCount: null,
    }));
  if (put.length > 0) await journal.changeWindows({ put });
  if (windows.length > put.length) {
    const retry = windows.filter(
      (window) => window.state === "expired" && window.toMs > clock.now() - account.config.retention,
    );
    if (retry.length > 0)
      await journal.changeWindows({
        remove: retry.map(({ id }) => id),
        add: retry.map((window) => newWindow(window.stream, window.fromMs, window.toMs)),
      });
  }
  return put.length;
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
