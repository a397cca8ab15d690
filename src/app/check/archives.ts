import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { ArchiveConfig } from "../../archive/config.ts";
import { checkSigned, parseCheckpoint } from "../../archive/log/checkpoint.ts";
import { checkLock, openStore, signerOf } from "../../archive/open.ts";
import type { Config } from "../../config/schema.ts";
import { systemClock } from "../../core/clock.ts";
import { explain } from "../../core/errors.ts";
import { archiveConfigs } from "../archives.ts";
import type { CheckFinding } from "./finding.ts";

/** Looks at the key and the place of every archive; writes nothing. */
export async function* checkArchives(config: Config): AsyncGenerator<CheckFinding> {
  for (const own of archiveConfigs(config)) {
    const subject = `archive ${own.name}`;
    try {
      checkLock(own);
      const keys = [own.key, ...(own.previousKey ? [own.previousKey] : [])];
      const verifiers = keys.map((key) => signerOf(own, key.reveal()).verifier);
      const bytes = await readNewest(own);
      if (bytes === undefined) {
        yield { subject, ok: true, message: "its place holds no archive; the first run begins one there" };
      } else {
        const checkpoint = parseCheckpoint(bytes);
        checkSigned(checkpoint, own.origin, verifiers);
        const message = `${checkpoint.size} log entries, signed with the key of the config`;
        yield { subject, ok: true, message };
      }
    } catch (error) {
      yield { subject, ok: false, message: explain(error) };
    }
    if (own.witnesses.length === 0)
      yield {
        subject,
        ok: true,
        warning: true,
        message:
          "no witness is named: only checkpoints that you keep elsewhere show a rewritten archive (docs/archive.md)",
      };
  }
}

async function readNewest({ store }: ArchiveConfig): Promise<Buffer | undefined> {
  if ("directory" in store)
    return readFile(join(store.directory, "log/checkpoint")).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return undefined;
      throw error;
    });
  const opened = await openStore(store, systemClock);
  return opened.read("log/checkpoint").finally(() => opened.close());
}
