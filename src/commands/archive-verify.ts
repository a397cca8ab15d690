import { existsSync, writeFileSync } from "node:fs";
import { type Command, InvalidArgumentError } from "commander";
import { type CheckedFiles, type Verification, verifyArchive } from "../archive/verify/verify.ts";
import { systemClock } from "../core/clock.ts";
import { UsageError } from "../core/errors.ts";
import { formatDuration } from "../core/time.ts";
import {
  type ArchiveFlags,
  checkDays,
  dayOption,
  keyOption,
  openNamed,
  readNamed,
  withStore,
} from "./archive-store.ts";
import type { Io } from "./io.ts";
import { durationOption, listOption } from "./options.ts";

interface Flags extends ArchiveFlags {
  readonly key?: string;
  readonly since?: string;
  readonly quick?: boolean;
  readonly organization?: string[];
  readonly from?: string;
  readonly to?: string;
  readonly sample?: number;
  readonly maxAge?: number;
  readonly receipt?: string;
}

export function registerVerify(archive: Command, io: Io): void {
  withStore(
    archive.command("verify"),
    "tidemark archive verify --key keys.txt --since checkpoint-of-last-year",
  )
    .summary("check every byte of an archive")
    .description(
      "Checks the log, every manifest and every data file. Exit code 0: all valid. 1: something is invalid or missing, and it is named. What it says is relative to the key, and to the checkpoint that you kept.",
    )
    .option(
      "--key <key>",
      "the archive's public key, or a file with it; without it the archive is only self-consistent",
    )
    .option("--since <file>", "a checkpoint that you kept: the log must continue it")
    .option("--quick", "check log, manifests and the store's own hashes; read no data file")
    .option("--organization <id>", "read only the ranges of this organization", listOption)
    .option("--from <date>", "the first day", dayOption)
    .option("--to <date>", "the last day", dayOption)
    .option(
      "--sample <percent>",
      "read so many percent of the data files, chosen by the log's root hash",
      percentOption,
    )
    .option(
      "--max-age <duration>",
      "fail when the newest log entry is older, for example 72h",
      durationOption,
    )
    .option("--receipt <file>", "note what was checked in this file, and go on from it next time")
    .option("--json", "print one JSON object")
    .action((flags: Flags) => verify(flags, io));
}

async function verify(flags: Flags, io: Io): Promise<void> {
  checkDays(flags);
  const isPartial = flags.quick || flags.sample !== undefined || flags.organization !== undefined;
  if (flags.receipt !== undefined && isPartial)
    throw new UsageError(
      "--receipt notes files of which every byte was checked: leave out --quick, --sample and --organization.",
    );
  const key = flags.key === undefined ? undefined : keyOption(flags.key);
  const since = flags.since === undefined ? undefined : readNamed("--since", flags.since);
  const { store } = await openNamed(flags, io);
  const receipt = createReceipt(flags.receipt);
  let parts = 0;
  const result = await verifyArchive(store, {
    key,
    since,
    quick: flags.quick,
    organizations: flags.organization?.map((id) => id.toLowerCase()),
    from: flags.from,
    to: flags.to,
    samplePercent: flags.sample,
    maxAgeMs: flags.maxAge,
    nowMs: systemClock.now(),
    sleep: systemClock.sleep,
    isDone: receipt.isDone,
    signal: io.signal,
    onPart(_index, isValid, leaf) {
      if (isValid) receipt.add(leaf);
      if (io.interactive) io.stderr.write(`\r\x1b[K${leaf.day} ${leaf.part} (${++parts})`);
    },
  });
  if (io.interactive) io.stderr.write("\r\x1b[K");
  await store.close();
  if (result.isValid) receipt.finish(result);
  io.stdout.write(flags.json ? `${JSON.stringify(result)}\n` : textOf(result, flags));
  if (!result.isValid || isNothing(result, flags)) io.setExitCode(1);
}

/** Nothing was asked for that the archive has: that is no proof of anything. */
function isNothing({ days, lines, size }: Verification, flags: Flags): boolean {
  const isLimited = flags.from !== undefined || flags.to !== undefined || flags.organization !== undefined;
  return isLimited && size > 0 && (days.total === 0 || lines === 0);
}

const GAPS_SHOWN = 50;
const DIFFERING_SHOWN = 50;
const CLOSING_SHOWN = 50;

/** An entry from the future has no age: one of the clocks is wrong. */
function ageText(ageMs: number): string {
  return ageMs < 0 ? `dated ${formatDuration(-ageMs)} in the future` : `${formatDuration(ageMs)} old`;
}

function textOf(result: Verification, flags: Flags): string {
  const { days, findings, findingsLeftOut, gaps, differing, size, events, isPinned, newestMs, witnessedMs } =
    result;
  const { unwitnessed } = result;
  const number = (value: number) => value.toLocaleString("en-US");
  const age = newestMs === undefined ? "no entries" : ageText(systemClock.now() - newestMs);
  return [
    ...findings.map(({ subject, message }) => `${subject}: ${message}`),
    ...(findingsLeftOut > 0 ? [`… and ${number(findingsLeftOut)} more findings`] : []),
    ...closingText(result.closing),
    ...lockedText(result.locked),
    ...gaps
      .slice(0, GAPS_SHOWN)
      .map(
        ({ day, organization, from, to, reason }) =>
          `${day} ${organization}: GAP from ${from} to ${to}: ${reason}`,
      ),
    ...differing.slice(0, DIFFERING_SHOWN).map(differingText),
    ...(isNothing(result, flags)
      ? ["NOTHING CHECKED: the archive has no closed day of these organizations in this time."]
      : []),
    ...(gaps.length > GAPS_SHOWN ? [`… and ${number(gaps.length - GAPS_SHOWN)} more gaps`] : []),
    ...(differing.length > DIFFERING_SHOWN
      ? [`… and ${number(differing.length - DIFFERING_SHOWN)} more days that differ`]
      : []),
    `${number(days.valid)}/${number(days.total)} days valid, ${flags.quick ? "data files not read" : `${number(events)} events read`}, ${number(size)} log entries`,
    `Newest log entry: ${age}, by the operator's clock. ${witnessedMs === undefined ? "No witness has cosigned the checkpoint." : `A witness cosigned the checkpoint at ${new Date(witnessedMs).toISOString()}.`}`,
    ...(unwitnessed.length === 0
      ? []
      : [
          `The newest checkpoint lacks the cosignature of a witness that the log names: ${unwitnessed.join(", ")}. It was away, or it refused: it may know a longer or another history of this log. Ask it.`,
        ]),
    ...result.endedWitnesses.map(endedText),
    isPinned
      ? "Checked with the given key."
      : "Self-consistent only: no key was given, so anybody could have written this archive. Use --key.",
    ...(flags.since === undefined
      ? [
          "No earlier checkpoint was given: a rebuilt archive would look the same. Keep log/checkpoint, and use --since next time.",
        ]
      : []),
    "",
  ].join("\n");
}

/** No finding, but only the witness can say whether it refused. */
function endedText({ name, entry, time, last }: Verification["endedWitnesses"][number]): string {
  const before =
    last === null
      ? "It has cosigned no checkpoint"
      : `The last checkpoint that it cosigned has ${last.size} entries, at ${new Date(last.atMs).toISOString()}`;
  return `The witness ${name} is no longer asked, since log entry ${entry} of ${time}: the operator took it out of the config. ${before}. If you do not know why, ask it: it may have refused, because it knows a longer or another history of this log.`;
}

function differingText({
  day,
  organization,
  held,
  returned,
  counted,
}: Verification["differing"][number]): string {
  const returnedText = returned === null ? "" : `returned ${returned}`;
  const countedText = counted === null ? "" : `counted ${counted}`;
  const service = [returnedText, countedText].filter((text) => text !== "").join(" and ");
  return `${day} ${organization}: DIFFERS: the service ${service} events, ${held} are held`;
}

/** No finding: the archive's own key has signed the names of these files. */
function closingText(closing: Verification["closing"]): string[] {
  if (closing === undefined) return [];
  const { sinceMs, paths } = closing;
  return [
    ...paths.slice(0, CLOSING_SHOWN).map((path) => `${path}: BEING CLOSED`),
    ...(paths.length > CLOSING_SHOWN ? [`… and ${paths.length - CLOSING_SHOWN} more files`] : []),
    `${paths.length} files are being closed, since ${new Date(sinceMs).toISOString()}. They count with the next checkpoint and were not checked: verify again then.`,
  ];
}

/** No finding: the archive's own key has signed that these files are to go. */
function lockedText(locked: Verification["locked"]): string[] {
  if (locked.length === 0) return [];
  const timeText = (timeMs: number) => new Date(timeMs).toISOString();
  return [
    ...locked
      .slice(0, CLOSING_SHOWN)
      .map(({ path, untilMs }) => `${path}: LOCKED by the store until ${timeText(untilMs)}`),
    ...(locked.length > CLOSING_SHOWN ? [`… and ${locked.length - CLOSING_SHOWN} more files`] : []),
    `${locked.length} files are no longer part of the archive and were not checked. The store has locked them; they are removed when their locks end, the last at ${timeText(Math.max(...locked.map(({ untilMs }) => untilMs)))}.`,
  ];
}

function percentOption(text: string): number {
  const percent = Number(text.replace(/%$/, ""));
  if (!(percent > 0 && percent <= 100))
    throw new InvalidArgumentError("Write a percentage above 0 and up to 100, such as 5%.");
  return percent;
}

/**
 * Notes the checked files by their hashes, one line for each log entry, so that a long verification can be continued
 * (A29). A line that does not fit the log, for example of another archive, skips nothing.
 */
function createReceipt(file: string | undefined) {
  const lines =
    file !== undefined && existsSync(file) ? readNamed("--receipt", file).toString().split("\n") : [];
  const isOver = lines.some((line) => line.startsWith("{"));
  const done = new Set(isOver ? [] : lines);
  const lineOf = ({ index, manifest_sha256: manifest, data_sha256: data }: CheckedFiles) =>
    `${index} ${manifest} ${data}`;
  if (file !== undefined && isOver) writeFileSync(file, "");
  return {
    isDone: (files: CheckedFiles) => done.has(lineOf(files)),
    add(files: CheckedFiles): void {
      if (file === undefined || done.has(lineOf(files))) return;
      done.add(lineOf(files));
      writeFileSync(file, `${lineOf(files)}\n`, { flag: "a" });
    },
    /** The receipt of a verification that came to its end. */
    finish({ origin, size, root, days, events }: Verification): void {
      if (file === undefined) return;
      const verified = new Date(systemClock.now()).toISOString();
      writeFileSync(file, `${JSON.stringify({ verified, origin, size, root, days, events })}\n`, {
        flag: "a",
      });
    },
  };
}
