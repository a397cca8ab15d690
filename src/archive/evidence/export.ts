import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { encodeName } from "../../core/names.ts";
import { currentParts } from "../log/current-parts.ts";
import type { ArchiveStore } from "../store/store.ts";
import { lineProof } from "./prove.ts";
import { readEntries, readLog } from "./read.ts";

export interface ExportQuery {
  readonly organizations: ReadonlySet<string>;
  readonly from: string;
  readonly to: string;
}

/** Copies ranges as they are: each is a zstd stream of its own, and its proof leads to a signed checkpoint. */
export async function exportRanges(
  store: ArchiveStore,
  query: ExportQuery,
  folder: string,
): Promise<{ ranges: number; events: number }> {
  const log = await readLog(store);
  const listed: string[] = [];
  let events = 0;
  for (const { leaf, files } of currentParts(log.leaves)) {
    // An addition may hold events of any day before its own.
    const isInside = leaf.day >= query.from && (leaf.kind !== "day" || leaf.day <= query.to);
    if (files === undefined || !isInside) continue;
    const entries = await readEntries(store, files);
    for (const [index, entry] of entries.entries()) {
      if ("gone" in entry || !query.organizations.has(entry.line.organization)) continue;
      const { line } = entry;
      const name = `${leaf.day}.${leaf.part}.${encodeName(line.organization)}`;
      const range = await store.read(files.data, { from: line.offset, length: line.stored_bytes });
      writeFileSync(join(folder, `${name}.jsonl.zst`), range!);
      writeFileSync(
        join(folder, `${name}.proof.json`),
        `${JSON.stringify(await lineProof(store, log, files, entries, index))}\n`,
      );
      listed.push(
        `- ${name}.jsonl.zst: ${line.events - line.erased.length} events, ${line.state}${line.missing.length > 0 ? `, missing: ${line.missing.map(({ from, to, reason }) => `${from} to ${to} (${reason})`).join(", ")}` : ""}`,
      );
      events += line.events - line.erased.length;
    }
  }
  writeFileSync(join(folder, "checkpoint"), log.checkpoint.bytes);
  writeFileSync(
    join(folder, "README.md"),
    readme(
      log.checkpoint.origin,
      log.leaves.flatMap((leaf) => (leaf.kind === "key" ? [leaf.key] : [])),
      listed,
    ),
  );
  return { ranges: listed.length, events };
}

function readme(origin: string, keys: readonly string[], listed: readonly string[]): string {
  return `# Evidence from ${origin}

${listed.join("\n")}

Read the events with \`zstdcat FILE.jsonl.zst | jq .\`. Each file has a proof beside it: \`tidemark archive verify-proof FILE.proof.json --key KEY\` checks that its manifest line is in the log behind the signed checkpoint. The line has the SHA-256 of the file (\`stored_sha256\`) and of the events in it (\`raw_sha256\`):

    sha256sum FILE.jsonl.zst
    zstdcat FILE.jsonl.zst | sha256sum

The keys that the log names are below. Get the key from its owner by another way before you rely on it.

${keys.map((key) => `    ${key}`).join("\n")}

docs/auditor.md of Tidemark describes every format, so that you can check this with tools of your own.
`;
}
