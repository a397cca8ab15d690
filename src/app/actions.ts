import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../config/schema.ts";
import { type Actions, lettersResult, type RESUME_FROM, UnknownNameError } from "../core/actions.ts";
import type { Clock } from "../core/clock.ts";
import { UsageError } from "../core/errors.ts";
import type { Delivery } from "../delivery/deliver.ts";
import { type Resolution, resolutionOf } from "../delivery/position.ts";
import type { State } from "../journal/database.ts";
import { createDeadLetters } from "../journal/dead-letters.ts";
import type { SqliteJournal } from "../journal/journal.ts";
import { type EventSpan, eventsBetween, leftOutText } from "../journal/left-out.ts";
import { knowsOrganization } from "../journal/roster.ts";
import type { Account } from "./account.ts";
import { archiveActions } from "./archive-operations.ts";
import { archiveFolder, type RunningArchive } from "./archives.ts";
import { refuseOtherShards } from "./shard.ts";
import { allSinks, sinkConfigs } from "./sinks.ts";

export interface ActionParts {
  readonly archives: readonly RunningArchive[];
  readonly config: Config;
  readonly db: State;
  readonly journal: SqliteJournal;
  readonly accounts: readonly Account[];
  readonly deliveries: readonly Delivery[];
  readonly clock: Clock;
  /** Undefined outside of a cluster. */
  readonly lane?: number | undefined;
}

/** The one implementation of the actions; the page, the HTTP API and the commands all use it. */
export function createActions(parts: ActionParts): Actions {
  return {
    ...deadLetterActions(parts),
    ...sinkActions(parts),
    ...readingActions(parts),
    ...archiveActions(parts.archives),
  };
}

function deadLetterActions({ db, journal, lane }: ActionParts): Pick<Actions, "replay" | "drop"> {
  const deadLetters = createDeadLetters(db, lane);
  return {
    async replay(filter) {
      // The bound keeps letters out that the sink refuses again while earlier ones are still replayed.
      const bounded = { ...filter, pageMax: filter.pageMax ?? journal.end().page };
      let count = 0;
      for (let more = -1; more !== 0; count += more) more = await deadLetters.replay(bounded, journal.pages);
      const result = lettersResult("replay", count, deadLetters.waiting(bounded));
      deadLetters.refuseDamaged(bounded, result.message);
      return result;
    },
    async drop(filter) {
      return lettersResult("drop", await deadLetters.drop(filter), deadLetters.waiting(filter));
    },
  };
}

function sinkActions({
  config,
  db,
  journal,
  deliveries,
  lane,
}: ActionParts): Pick<Actions, "retry" | "resume" | "rename" | "forget"> {
  const deliveryOf = (sink: string) => {
    const found = deliveries.find((delivery) => delivery.status().name === sink);
    if (found === undefined) throw noSuchSink(sink, config);
    return found;
  };
  return {
    async retry({ sink }) {
      deliveryOf(sink).tryNow();
      return { count: 1, message: `The sink "${sink}" is being tried now.` };
    },
    async resume({ sink, from }, signal) {
      let left: readonly EventSpan[] = [];
      const resolution: Resolution = async (facts) => {
        const to = await resolutionOf(from)(facts);
        if (from === "now" || from === "behind-damage")
          left = eventsBetween(db, sink, facts.reader.position, to);
        return to;
      };
      await deliveryOf(sink).resolve(resolution, signal);
      const done = `The sink "${sink}" continues ${PLACES[from]}.`;
      return { count: 1, message: [done, leftOutText(sink, left)].join(" ").trimEnd() };
    },
    async rename({ from, to }) {
      refuseInUse(config, from);
      const known = journal.readers.names();
      if (!known.includes(from))
        throw new UnknownNameError(
          `The state file has no position for a sink "${from}". It has: ${known.join(", ")}.`,
        );
      if (journal.readers.isArchive(from))
        throw new UsageError(
          `"${from}" is an archive. Its log, its holds and its days are stored under that name, so it cannot be renamed. Call it "${from}" in the config again.`,
        );
      if (known.includes(to))
        throw new UsageError(
          `The state file already has a position for a sink "${to}". Forget that one first, or choose another name.`,
        );
      // They get new checksums with the new name.
      createDeadLetters(db, lane).refuseDamaged({ sink: from }, "Nothing was changed.");
      await journal.readers.rename(from, to);
      return { count: 1, message: `The position of "${from}" now belongs to "${to}".` };
    },
    async forget({ sink }) {
      refuseInUse(config, sink);
      if (!journal.readers.names().includes(sink))
        throw new UnknownNameError(`The state file has no position for a sink "${sink}".`);
      if (!journal.readers.isArchive(sink)) {
        await journal.readers.forget(sink);
        return { count: 1, message: `The position and the dead letters of "${sink}" were deleted.` };
      }
      const message = forgottenArchive(config, sink, journal.readers.archiveFacts(sink));
      // The files go first: after a crash the command can be repeated.
      removeWorkFiles(config, sink);
      await journal.readers.forget(sink);
      return { count: 1, message };
    },
  };
}

const PLACES: Readonly<Record<(typeof RESUME_FROM)[number], string>> = {
  destination: "from the destination",
  state: "from the position in the state file",
  beginning: "from the beginning",
  now: "with new events only",
  "behind-damage": "behind the damaged page",
};

function readingActions(parts: ActionParts): Pick<Actions, "backfill" | "reconcile" | "poll"> {
  const { config, accounts } = parts;
  return {
    async backfill({ account: name, organizations, sink, ...wanted }, signal) {
      if (sink !== undefined && !sinkConfigs(config).some((one) => one.name === sink))
        throw noSuchSink(sink, config);
      let count = 0;
      const request = { ...wanted, organizations: lowerCase(organizations), reader: sink ?? null };
      for (const account of chosen(accounts, name)) count += await account.poller.addHistory(request, signal);
      requireKnown(parts, request.organizations);
      const message =
        count === 0
          ? "Nothing to read: this time has been read already. Use `reconcile` to compare it with the service again."
          : `${windowsText(count)} to be read.`;
      return { count, message };
    },
    async reconcile({ account: name, organizations: asked, fromMs, toMs }, signal) {
      const organizations = lowerCase(asked);
      let count = 0;
      for (const account of chosen(accounts, name))
        count += await account.poller.reconcile({ fromMs, toMs, organizations }, signal);
      requireKnown(parts, organizations);
      return { count, message: `${windowsText(count)} to be compared with the service again.` };
    },
    async poll({ account }) {
      const polled = chosen(accounts, account);
      for (const { poller } of polled) poller.planNow();
      const names = polled.map(({ name }) => name).join(", ");
      return { count: polled.length, message: `Looking for new organizations and events of ${names}.` };
    },
  };
}

function windowsText(count: number): string {
  return count === 1 ? "1 window is" : `${count} windows are`;
}

function lowerCase(ids: readonly string[] | undefined): string[] | undefined {
  return ids?.map((id) => id.toLowerCase());
}

function noSuchSink(name: string, config: Config): UnknownNameError {
  const known = sinkConfigs(config).map((sink) => sink.name);
  return new UnknownNameError(`${noSinkText(name)} It has: ${known.join(", ")}.`);
}

const noSinkText = (name: string) => `There is no sink "${name}" in the config.`;
const inUseText = (name: string) =>
  `The sink "${name}" is still in the config. Remove it there, or give it its new name, first.`;

/**
 * The words for a refusal of the running process that contradicts the config of the command: the process was started
 * with another config. Undefined: the refusal is right for this config too.
 */
export function otherConfigText(config: Config, refusal: string): string | undefined {
  const stop = "Stop it, run this again, and start it afterwards.";
  const isIn = (name: string) => allSinks(config).some((sink) => sink.name === name);
  const name = /^[^"]*"([^"]*)"/.exec(refusal)?.[1] ?? "";
  if (refusal === inUseText(name) && !isIn(name))
    return `The running process was started with another config, which still has the sink "${name}". ${stop}`;
  if (refusal.startsWith(noSinkText(name)) && isIn(name))
    return `The running process was started with another config, which does not have the sink "${name}". ${stop}`;
  return undefined;
}

/** What an archive keeps beside the state file, or beside a lane's. Its place may be the same folder, so nothing else goes. */
function removeWorkFiles(config: Config, name: string): void {
  for (const folder of workFolders(config, name))
    for (const part of ["pages", "work", "deletions"])
      rmSync(join(folder, part), { recursive: true, force: true });
}

function workFolders({ state }: Config, name: string): readonly string[] {
  return [archiveFolder(state, name), `${state}.${name}.archive`];
}

function forgottenArchive(
  config: Config,
  name: string,
  { stagedPages, holds, erasures }: { stagedPages: number; holds: number; erasures: number },
): string {
  // A lane of a cluster stages pages in its archive's store, whose place and keys are not in the config any more.
  const areElsewhere = !workFolders(config, name).some((folder) => existsSync(join(folder, "pages")));
  const sentences = [
    `The state of the archive "${name}" was deleted, so it cannot be continued. Its place keeps everything that was closed.`,
    ...(stagedPages === 0
      ? []
      : [
          `${stagedPages} pages that it had not closed and that had left the journal are given up: their events are at the service, as far back as it keeps them.`,
          ...(areElsewhere
            ? [
                "Their files are still in the archive's bucket, below its prefix in a folder that ends with .staging/: delete them there.",
              ]
            : []),
        ]),
    ...(holds + erasures === 0
      ? []
      : [
          `${holds} holds and ${erasures} erasures of it are not known here any more: they do not count for events that are not closed yet, nor for dead letters. Repeat them in the archive that follows.`,
        ]),
  ];
  return sentences.join(" ");
}

function refuseInUse(config: Config, name: string): void {
  if (!allSinks(config).some((sink) => sink.name === name)) return;
  throw new UsageError(inUseText(name));
}

/** A misspelt organization must be an error, not an empty result. */
function requireKnown({ db, config }: ActionParts, organizations: readonly string[] | undefined): void {
  refuseOtherShards(config, organizations);
  const providers = config.accounts.map(({ provider }) => provider?.toLowerCase());
  const unknown = (organizations ?? []).filter((id) => !providers.includes(id) && !knowsOrganization(db, id));
  if (unknown.length === 0) return;
  throw new UnknownNameError(
    `No account has an organization ${unknown.join(", ")}. "tidemark status --top 1000" lists the known ones.`,
  );
}

function chosen(accounts: readonly Account[], name: string | undefined): readonly Account[] {
  if (name === undefined) return accounts;
  const found = accounts.filter((account) => account.name === name);
  if (found.length > 0) return found;
  const known = accounts.map((account) => account.name).join(", ");
  throw new UnknownNameError(`There is no account "${name}". There are: ${known}.`);
}
