import { spawnSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { runMain } from "../support/world.ts";

/** The words that bash offers after these. */
async function offered(...words: string[]): Promise<string[]> {
  const { stdout } = await runMain(["completion", "bash"]);
  const line = words.map((word) => `'${word}'`).join(" ");
  const script = `${stdout}\nCOMP_WORDS=(tidemark ${line}); COMP_CWORD=${words.length}; _tidemark; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout: output, status } = spawnSync("bash", ["-c", script], { encoding: "utf8" });
  expect(status).toBe(0);
  return output.split("\n").filter((word) => word !== "");
}

describe("completion", () => {
  test("bash offers commands, subcommands and options", async () => {
    expect(await offered("co")).toEqual(["coverage", "convert", "completion"]);
    expect(await offered("dead-letters", "")).toEqual(
      expect.arrayContaining(["list", "show", "replay", "drop"]),
    );
    expect(await offered("dead-letters", "list", "--g")).toEqual(["--group"]);
    expect(await offered("run", "--on")).toEqual(["--once"]);
  });

  test.each(["zsh", "fish"])("%s has every command with its summary", async (shell) => {
    const { code, stdout } = await runMain(["completion", shell]);
    expect(code).toBe(0);
    for (const word of ["dead-letters", "coverage", "group", "completion", "replay"])
      expect(stdout).toContain(word);
    const syntax = spawnSync(shell, ["-n"], { input: stdout, encoding: "utf8" });
    if (syntax.error === undefined) expect([syntax.status, syntax.stderr]).toEqual([0, ""]);
  });

  test("another shell is refused", async () => {
    expect((await runMain(["completion", "tcsh"])).code).toBe(2);
  });
});
