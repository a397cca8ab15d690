import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { measure, measureCommand } from "./processes.js";

const DRIVER = fileURLToPath(new URL("archive-driver.js", import.meta.url));

/**
 * Closes a journal of ten days into an archive and verifies it, each in a process of its own. Beside the verification,
 * `zstd -dc | sha256sum` runs over the same data files. Rounds take turns; the best time and the worst memory count.
 *
 * @param {{ events: number, organizations: number, rounds: number }} scenario
 */
export async function benchArchive({ events, organizations, rounds }) {
  const rows = new Map();
  for (let round = 0; round < rounds; round++) {
    const folder = mkdtempSync(join(tmpdir(), "tidemark-bench-archive-"));
    const phase = (name) => measure([DRIVER, name, folder, String(events), String(organizations)]);
    try {
      await phase("prepare");
      note(rows, "close", await phase("close"));
      note(rows, "verify", await phase("verify"));
      const files = readdirSync(join(folder, "archive/events"), { recursive: true })
        .map((path) => join(folder, "archive/events", path))
        .filter((path) => statSync(path).isFile());
      note(
        rows,
        "zstd -dc | sha256sum",
        await measureCommand("sh", ["-c", `zstd -dc ${files.join(" ")} | sha256sum`]),
      );
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }
  const bare = rows.get("zstd -dc | sha256sum");
  return [...rows].map(([job, { seconds, cpuSeconds, peakBytes }]) => ({
    job,
    "events/s": Math.round(events / seconds),
    "µs/event": Number(((cpuSeconds / events) * 1e6).toFixed(1)),
    "of zstd | sha256sum": job === "close" ? "" : Number((bare.seconds / seconds).toFixed(2)),
    "RSS MB": peakBytes === undefined ? "" : Math.round(peakBytes / 1e6),
  }));
}

function note(rows, name, run) {
  const before = rows.get(name) ?? run;
  rows.set(name, {
    seconds: Math.min(before.seconds, run.seconds),
    cpuSeconds: Math.min(before.cpuSeconds, run.cpuSeconds),
    peakBytes: run.peakBytes === undefined ? undefined : Math.max(before.peakBytes, run.peakBytes),
  });
}
