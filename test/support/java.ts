import { createHash } from "node:crypto";
import { existsSync, realpathSync, statSync } from "node:fs";
import { join } from "node:path";
import { makeOnce, programOnPath } from "./components.ts";

/** A small heap, one collector thread, and no second compiler: these servers live for seconds. */
export const SHORT_LIVED = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];

const ARCHIVE = "classes.jsa";

/**
 * A folder in the cache, made once for this Java, with the classes of a server as Java has loaded and checked
 * them. A start that uses it takes less than half of the processor time. `train` starts the server with the
 * flags that it gets and ends it with SIGTERM, and may leave other files in the folder.
 */
export async function trainOnce(
  name: string,
  train: (flags: readonly string[], folder: string) => Promise<void>,
): Promise<string> {
  const java = realpathSync(programOnPath("java")!);
  const version = createHash("sha256")
    .update(`${java} ${statSync(java).mtimeMs}`)
    .digest("hex")
    .slice(0, 12);
  return makeOnce(`${name}-java-${version}`, (folder) =>
    train([`-XX:ArchiveClassesAtExit=${join(folder, ARCHIVE)}`, "-Xlog:cds=off"], folder),
  );
}

/** The flags of a start that uses what `trainOnce` has left. A Java that cannot use it starts as always. */
export function trainedFlags(folder: string): string[] {
  const archive = join(folder, ARCHIVE);
  return existsSync(archive) ? [`-XX:SharedArchiveFile=${archive}`, "-Xlog:cds=off"] : [];
}
