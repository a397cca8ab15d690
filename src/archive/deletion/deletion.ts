import { hash, randomBytes } from "node:crypto";
import { dayOf, type OpenEvents } from "../../core/archive.ts";
import { DecisionNeededError, explain, UsageError } from "../../core/errors.ts";
import { readEntries } from "../evidence/read.ts";
import { type CurrentPart, currentParts } from "../log/current-parts.ts";
import type { LeafBody } from "../log/leaf.ts";
import { textPath } from "../log/texts.ts";
import type { Line } from "../part/manifest.ts";
import { dueOrders } from "./due.ts";
import { type Erasure, fateOfErased } from "./erased-events.ts";
import { type Hold, holdsOf } from "./holds.ts";
import { refuseUnknownClasses, retentionOf } from "./past-retention.ts";
import { createPartRemoval, type DeletionParts, type SaltedText } from "./remove-parts.ts";

/*
 * Holds, prunings and erasures. They run one after the other, between turns of closing. A deletion has these steps,
 * each of which can be repeated after a crash:
 *
 *   1. files that a deletion before has left behind are removed
 *   2. holds are read again (A22)
 *   3. the state notes that a deletion is under way, and the names of its new and old files
 *   4. where something of a part stays, the part is written again: new data file and manifest go to the store
 *   5. the entry with what was removed, and with the new files, is in a signed checkpoint
 *   6. the old files are removed, with all their versions, and the note with them
 *
 * After a crash `finish` removes whatever no entry explains. Wordings are written with the first entry that names them.
 *
 * A hold is in force first and in the log then; a release is in the log first. `finish` completes both.
 */
export interface Deletions {
  hold(body: NewHold, signal: AbortSignal): Promise<string>;
  release(id: string, signal: AbortSignal): Promise<string>;
  holds(): readonly Hold[];
  prune(order: PruneOrder, signal: AbortSignal): Promise<string>;
  erase(body: Erasure, signal: AbortSignal): Promise<string>;
  /** Removes files whose lock has ended, and what a failed deletion left behind; gives their number. */
  removeUnlocked(): Promise<number>;
  /** Ends a deletion, a hold or a release that a crash interrupted. */
  finish(signal: AbortSignal): Promise<void>;
}

export interface PruneOrder {
  readonly dryRun: boolean;
  /** No answer of the service confirms the clock: the operator answers for it, and the log says so. */
  readonly withoutService?: boolean | undefined;
}

export interface NewHold {
  readonly case: string;
  /** Empty: all. */
  readonly organizations: readonly string[];
  readonly from: string | null;
  readonly to: string | null;
}

const PAGES_NOTED_MAX = 20;

export function createDeletions(parts: DeletionParts): Deletions {
  const { archive, store, state, config, clock } = parts;
  const holds = () => holdsOf(state);
  const setHolds = (list: readonly Hold[]) => state.setFact("holds", JSON.stringify(list));
  const { removeParts, removeCopies, removeLeftovers, removeUnlocked, lockedUntil } =
    createPartRemoval(parts);

  /** The log has a salted hash; the wording is beside it and can be erased (A18). */
  function saltedText(text: object): SaltedText {
    const bytes = Buffer.from(JSON.stringify({ salt: randomBytes(16).toString("hex"), ...text }));
    const digest = hash("sha256", bytes, "hex");
    return { digest, path: textPath(digest), bytes };
  }

  /** Brings the holds in force and the log together. */
  async function finishHolds(signal: AbortSignal): Promise<void> {
    if (holds().length === 0) return;
    for (const hold of holds().filter(({ text }) => text !== undefined)) {
      if (!archive.leaves().some((leaf) => leaf.kind === "hold" && leaf.hold === hold.id))
        await logHold(hold, hold.text!, signal);
      await setHolds(holds().map(({ text, ...each }) => (each.id === hold.id ? each : { ...each, text })));
    }
    const released = new Set(
      archive.leaves().flatMap((leaf) => (leaf.kind === "release" ? [leaf.hold] : [])),
    );
    if (holds().some(({ id }) => released.has(id)))
      await setHolds(holds().filter(({ id }) => !released.has(id)));
  }

  async function logHold(hold: Hold, text: string, signal: AbortSignal): Promise<void> {
    const { id, caseHash, from, to } = hold;
    const path = textPath(caseHash);
    if (state.fact("rewrite") !== undefined) await removeLeftovers();
    await state.setFact("rewrite", JSON.stringify([path]));
    await archive.log.announce([path]);
    await store.create(path, { bytes: Buffer.from(text) });
    const body: LeafBody = {
      kind: "hold",
      hold: id,
      case_hash: caseHash,
      organizations_hash: hash("sha256", `${caseHash} ${hold.organizations.join(" ")}`, "hex"),
      from,
      to,
    };
    await archive.log.append([{ body }], signal);
    await state.setFact("rewrite", null);
  }

  /** Made for one pruning: who sees an organization may change. */
  function lineRetention() {
    const seeing = parts.accountsSeeing?.();
    return (part: CurrentPart, line: Line) => retentionOf(config, part, line, seeing?.get(line.organization));
  }

  /** The parts of which something is past its retention. */
  async function dueText(due: readonly CurrentPart[], nowMs: number): Promise<string> {
    const names: string[] = [];
    const retentionOfLine = lineRetention();
    for (const part of due) {
      const entries = await readEntries(store, part.files!);
      const lines = entries.flatMap((entry) => ("line" in entry ? [entry.line] : []));
      if (!lines.some((line) => retentionOfLine(part, line).untilMs <= nowMs)) continue;
      const { class: name, keep } = retentionOf(config, part);
      names.push(`${part.leaf.day}.${part.leaf.part} (${name}, ${keep})`);
    }
    return `${names.length} parts are past their retention: ${names.join(", ") || "none"}. Holds are applied when they are pruned.`;
  }

  return {
    holds,
    async finish(signal) {
      await finishHolds(signal);
      removeCopies();
      if (state.fact("rewrite") !== undefined) await removeLeftovers();
      await archive.log.sayLocked(dueOrders(state));
    },
    removeUnlocked,
    async hold(body, signal) {
      const text = saltedText({ case: body.case, organizations: body.organizations });
      const id = `hold-${randomBytes(4).toString("hex")}`;
      // In force before it is in the log: a pruning that runs next must see it.
      await setHolds([
        ...holds(),
        {
          id,
          caseHash: text.digest,
          ...body,
          organizations: [...body.organizations],
          text: text.bytes.toString(),
        },
      ]);
      await finishHolds(signal).catch((error: unknown) => {
        throw inForceAlready(id, error);
      });
      return id;
    },
    async release(id, signal) {
      await finishHolds(signal);
      const found = holds().find((hold) => hold.id === id);
      if (found === undefined)
        throw new UsageError(`There is no hold "${id}": see \`tidemark archive hold list\`.`);
      await archive.log.append([{ body: { kind: "release", hold: id, case_hash: found.caseHash } }], signal);
      await finishHolds(signal);
      return `The hold ${id} is released.`;
    },
    async prune({ dryRun, withoutService = false }, signal) {
      const all = currentParts(archive.leaves()).filter(({ files }) => files !== undefined);
      refuseUnknownClasses(config, all);
      const nowMs = clock.now();
      const due = all.filter((part) => retentionOf(config, part).untilMs <= nowMs);
      if (dryRun) return dueText(due, nowMs);
      /** Of the lines that go, by part. */
      const longest = new Map<number, ReturnType<typeof retentionOf>>();
      let longer = 0;
      const retentionOfLine = lineRetention();
      const total = await removeParts(
        due,
        async (line, part) => {
          const retention = retentionOfLine(part, line);
          if (retention.untilMs > nowMs) {
            longer++;
            return "keep";
          }
          const { index } = part.leaf;
          if (retention.untilMs > (longest.get(index)?.untilMs ?? 0)) longest.set(index, retention);
          return "gone";
        },
        ({ leaf }, { lines }, replacement) => ({
          kind: "prune",
          leaf: leaf.index,
          policy: longest.get(leaf.index)!.keep,
          removed_lines: lines,
          replacement,
          ...(withoutService && { clock: "unconfirmed" }),
        }),
        signal,
      );
      const kept =
        longer === 0 ? "" : ` ${longer} stay, because the class of their organization keeps them longer.`;
      return `${total.parts} parts were pruned, with ${total.lines} days of organizations; ${total.kept} are on hold and stay.${kept}${lockedUntil()}`;
    },
    async erase(body, signal) {
      const reason = saltedText({ reason: body.reason });
      const inside = currentParts(archive.leaves()).filter(
        ({ files, leaf }) =>
          files !== undefined &&
          (leaf.kind !== "day" ||
            ((body.from === null || leaf.day >= body.from) && (body.to === null || leaf.day <= body.to))),
      );
      const scope = { organization: body.organization, event: body.event ?? null, from: body.from };
      // Later events of an organization are archived again. One event needs no end: it does not come a second time.
      const to = body.to ?? (body.event === undefined ? dayOf(clock.now()) : null);
      await state.tombstone({ ...scope, to }, reason.bytes.toString());
      while (await state.noteArrivals(PAGES_NOTED_MAX)) signal.throwIfAborted();
      const open = await state.openEvents({ ...scope, to });
      const total = await removeParts(
        inside,
        (line, part) => fateOfErased(line, body, part, store),
        ({ leaf }, { lines, events }, replacement) => ({
          kind: "erase",
          leaf: leaf.index,
          reason_hash: reason.digest,
          removed_lines: lines,
          removed_events: events,
          replacement,
        }),
        signal,
        reason,
      );
      const letters = await state.eraseDeadLetters({ ...scope, to });
      const nothing =
        total.parts + total.kept + open.leftOut + open.onHold === 0 &&
        letters.erased + letters.onHold + letters.waiting === 0
          ? "Nothing matches: check the organization and the event's id. "
          : "";
      return [
        `${nothing}${total.events} events of ${total.parts} parts were erased, and ${letters.erased} dead letters.`,
        ...(total.kept > 0 ? [`${total.kept} days are on hold and stay.`] : []),
        ...(letters.onHold > 0
          ? [`${letters.onHold} dead letters are on hold (${letters.holds.join(", ")}) and stay.`]
          : []),
        ...(letters.waiting > 0
          ? [
              `${letters.waiting} dead letters stay: a sink has not delivered the events around them yet, and would deliver these too. Repeat the order when it has.`,
            ]
          : []),
        openText(open),
        ...(to === null
          ? []
          : [`The erasure is about days up to ${to}: events of later days are archived as before.`]),
        `Copies that sinks have delivered are out of reach: erase them there.${lockedUntil()}`,
      ].join(" ");
    },
  };
}

function openText({ leftOut, onHold }: OpenEvents): string {
  const held =
    onHold === 0
      ? ""
      : ` ${onHold} events that are not closed yet are on hold and stay: they are archived if the hold is still in force when their day is closed.`;
  return `${leftOut} events that are not closed yet are left out when their day is closed, unless a hold is in force then; the log gets an entry about them, and the journal drops their bytes.${held}`;
}

/** The hold counts from the first step on, so the person must not repeat the order. */
function inForceAlready(id: string, error: unknown): Error {
  const said = `The hold ${id} is in force, but its entry is not in the log yet; the next start adds it. Do not repeat the command. ${explain(error)}`;
  if (error instanceof DecisionNeededError)
    return new DecisionNeededError(said, error.choices, { cause: error });
  return new Error(said, { cause: error });
}
