import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openStillArchive } from "../search/insights-world.ts";
import { DUCKDB_REMEDY, duckdb } from "../search/support.ts";
import { skipUnless } from "../support/components.ts";
import { runMain } from "../support/world.ts";
import { ROOT } from "./pages.ts";

const skips = skipUnless("duckdb", duckdb, DUCKDB_REMEDY);
const PAGE = join(ROOT, "docs/search.md");
const text = readFileSync(PAGE, "utf8");
const questions = [...text.matchAll(/^```sh question\n(.*)\n```\n```text\n([\s\S]*?)```$/gm)].map(
  ([whole, command, answer]) => ({ whole, command: command!, answer: answer! }),
);

describe.skipIf(skips)("the questions of docs/search.md", () => {
  let world: Awaited<ReturnType<typeof openStillArchive>>;
  let page = text;
  beforeAll(async () => {
    world = await openStillArchive();
  });
  afterAll(async () => {
    // TIDEMARK_ANSWERS=1 writes the answers; read them before they are committed.
    if (process.env.TIDEMARK_ANSWERS === "1") writeFileSync(PAGE, page);
    await world?.close();
  });

  it("are ten", () => expect(questions).toHaveLength(10));

  it.each(questions)("$command", async ({ whole, command, answer }) => {
    const words = [...command.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain!);
    const { own } = world;
    const { stdout, code } = await runMain([...words.slice(1), "--store", own.world.storeFolder], {
      XDG_CACHE_HOME: join(own.world.folder, "cache"),
    });
    expect(code).toBe(0);
    const shown = stdout.trimEnd() === "" ? "" : `${stdout.trimEnd()}\n`;
    if (process.env.TIDEMARK_ANSWERS === "1") {
      page = page.replace(whole, () =>
        whole.replace(/```text\n[\s\S]*```$/, () => `\`\`\`text\n${shown}\`\`\``),
      );
      return;
    }
    expect(shown).toBe(answer);
    expect(shown.length).toBeGreaterThan(1);
  });
});
