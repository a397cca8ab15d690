import { existsSync, mkdirSync } from "node:fs";
import type { Command } from "commander";
import { ZodError } from "zod";
import { exportRanges } from "../archive/evidence/export.ts";
import { type CheckedProof, checkProof, proveEvent } from "../archive/evidence/prove.ts";
import { reportHtml } from "../archive/evidence/report.ts";
import type { Verifier } from "../archive/log/note.ts";
import { systemClock } from "../core/clock.ts";
import { UsageError } from "../core/errors.ts";
import { registerDeletions } from "./archive-deletions.ts";
import { registerRebuildIndex } from "./archive-index.ts";
import { registerKeys } from "./archive-keys.ts";
import { registerReconcile } from "./archive-reconcile.ts";
import {
  type ArchiveFlags,
  checkDays,
  dayOption,
  keyOption,
  openNamed,
  readNamed,
  withStore,
} from "./archive-store.ts";
import { registerVerify } from "./archive-verify.ts";
import type { Io } from "./io.ts";
import { listOption } from "./options.ts";

export function registerArchive(program: Command, io: Io): void {
  const archive = program.command("archive").summary("verify, prove and export archived evidence");
  registerVerify(archive, io);
  registerProve(archive, io);
  registerExport(archive, io);
  registerReport(archive, io);
  registerReconcile(archive, io);
  registerKeys(archive, io);
  registerDeletions(archive, io);
  registerRebuildIndex(archive, io);
}

function registerProve(archive: Command, io: Io): void {
  withStore(
    archive.command("prove"),
    "tidemark archive prove 66f1c0… --organization 5f0c… --day 2026-11-15 > proof.json",
  )
    .summary("make a proof that one event is in the archive")
    .description(
      "Prints a file that proves an event: its bytes, its place in three hash trees and a signed checkpoint. Anybody can check it offline; it says nothing about other events or organizations.",
    )
    .argument("<event>", "the event's id, or its identity of 32 hexadecimal digits")
    .option("--organization <id>", "look only there, which is faster")
    .option("--day <date>", "look only in this day and in additions", dayOption)
    .action(async (event: string, flags: ArchiveFlags & { organization?: string; day?: string }) => {
      const { store } = await openNamed(flags, io);
      const proofs = await proveEvent(store, {
        event,
        organization: flags.organization?.toLowerCase(),
        day: flags.day,
      });
      await store.close();
      if (proofs.length === 0)
        throw new Error(
          `No event ${event} was found in ${store.place}. It may not be closed yet, or it was erased or pruned; \`tidemark search --id\` looks into open days too.`,
        );
      for (const proof of proofs) io.stdout.write(`${JSON.stringify(proof)}\n`);
    });

  archive
    .command("verify-proof")
    .summary("check a proof file offline")
    .argument("<file>", "the proof")
    .requiredOption("--key <key>", "the archive's public key, or a file with it")
    .addHelpText("after", "\nExample:\n  $ tidemark archive verify-proof proof.json --key keys.txt")
    .action((file: string, flags: { key: string }) => {
      const key = keyOption(flags.key);
      const lines = readNamed("the proof", file)
        .toString()
        .split("\n")
        .filter((one) => one.trim() !== "");
      if (lines.length === 0) throw new UsageError(`${file} is empty: it holds no proof.`);
      for (const line of lines) {
        const { event, line: about, leaf, origin, size } = checkedProof(line, key);
        io.stdout.write(
          `VALID: ${about.organization}, ${about.day}, in entry ${leaf.index} of ${size} of ${origin}\n`,
        );
        if (event !== undefined) io.stdout.write(`${event}\n`);
      }
    });
}

function checkedProof(text: string, key: Verifier): CheckedProof {
  try {
    return checkProof(JSON.parse(text), key);
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof ZodError)
      throw new Error("INVALID: This is no proof file of an archive.");
    throw new Error(`INVALID: ${(error as Error).message}`);
  }
}

function registerExport(archive: Command, io: Io): void {
  withStore(
    archive.command("export"),
    "tidemark archive export --organization 5f0c… --from 2026-01-01 --to 2026-01-31 --to-directory case-17",
  )
    .summary("copy an organization's days with their proofs, for a third party")
    .description(
      "Copies ranges of data files as they are, with a proof for each and a README. The third party needs no access to the archive.",
    )
    .requiredOption(
      "--organization <id>",
      "the organization; repeat or separate by commas for more",
      listOption,
    )
    .requiredOption("--from <date>", "the first day", dayOption)
    .requiredOption("--to <date>", "the last day", dayOption)
    .requiredOption("--to-directory <directory>", "where the files go; must not be there yet")
    .action(
      async (
        flags: ArchiveFlags & { organization: string[]; from: string; to: string; toDirectory: string },
      ) => {
        checkDays(flags);
        if (existsSync(flags.toDirectory))
          throw new UsageError(`${flags.toDirectory} is there already: name a new directory.`);
        const { store } = await openNamed(flags, io);
        mkdirSync(flags.toDirectory, { recursive: true });
        const organizations = new Set(flags.organization.map((id) => id.toLowerCase()));
        const { ranges, events } = await exportRanges(
          store,
          { organizations, from: flags.from, to: flags.to },
          flags.toDirectory,
        );
        await store.close();
        io.stdout.write(
          `${flags.toDirectory} has ${ranges} ranges with ${events} events, their proofs and a README.\n`,
        );
        if (ranges === 0) {
          io.stderr.write("Nothing was found: check the organization and the days.\n");
          io.setExitCode(1);
        }
      },
    );
}

function registerReport(archive: Command, io: Io): void {
  withStore(
    archive.command("report"),
    "tidemark archive report --key keys.txt --from 2026-01-01 --to 2026-12-31 > report.html",
  )
    .summary("verify the archive and print a report for an auditor")
    .description(
      "Verifies, then prints one HTML page: what is held, what is missing and why, how it was checked, and how to check it again.",
    )
    .option(
      "--key <key>",
      "the archive's public key, or a file with it; without it the report says that nothing is pinned",
    )
    .option("--from <date>", "the first day", dayOption)
    .option("--to <date>", "the last day", dayOption)
    .option("--quick", "do not read data files")
    .action(async (flags: ArchiveFlags & { key?: string; from?: string; to?: string; quick?: boolean }) => {
      checkDays(flags);
      const key = flags.key === undefined ? undefined : keyOption(flags.key);
      const { store } = await openNamed(flags, io);
      const { html, isValid } = await reportHtml(store, {
        ...flags,
        key,
        nowMs: systemClock.now(),
        signal: io.signal,
      });
      await store.close();
      io.stdout.write(html);
      if (!isValid) io.setExitCode(1);
    });
}
