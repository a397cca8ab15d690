import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { parseConfig } from "../../src/config/load.ts";
import { programOnPath } from "../support/components.ts";

const SYSTEMD = join(import.meta.dirname, "../../deploy/systemd");
const unit = readFileSync(join(SYSTEMD, "tidemark.service"), "utf8");
const config = readFileSync(join(SYSTEMD, "tidemark.yaml"), "utf8");
const analyze = programOnPath("systemd-analyze");
if (!analyze)
  process.stderr.write("SKIPPED, systemd-analyze is missing: install the Debian package systemd\n");

const folder = mkdtempSync(join(tmpdir(), "tidemark-unit-"));
const file = join(folder, "tidemark.service");
// Node lies elsewhere on many machines, and verify wants every program to be there.
writeFileSync(file, unit.replaceAll("/usr/bin/node", process.execPath));

afterAll(() => rmSync(folder, { recursive: true }));

describe("the systemd unit", () => {
  it.skipIf(!analyze)("passes systemd-analyze verify without a word", () => {
    const verify = spawnSync(analyze!, ["verify", file], { encoding: "utf8" });
    expect(verify.stdout + verify.stderr).toBe("");
    expect(verify.status).toBe(0);
  });

  it.skipIf(!analyze)("is hardened: its exposure is below 2 of 10", () => {
    const args = ["security", "--offline=true", "--threshold=20", file];
    const security = spawnSync(analyze!, args, { encoding: "utf8" });
    expect(security.stdout).toContain("Overall exposure level");
    expect(security.status).toBe(0);
  });

  it("comes with a config that the program accepts", () => {
    expect(parseConfig(config, "deploy/systemd/tidemark.yaml").state).toBe("/var/lib/tidemark/tidemark.db");
  });

  it("loads a credential for every secret file of the config, and no other", () => {
    const loaded = [...unit.matchAll(/^LoadCredential=([^:]+):/gm)].map(([, name]) => name);
    const named = [...config.matchAll(/\{ file: \/run\/tidemark\/([\w-]+) \}/g)].map(([, name]) => name);
    expect(named.length).toBeGreaterThan(0);
    expect(loaded.sort()).toEqual(named.sort());
  });

  it("is not restarted over a config that a person has to fix", () => {
    expect(unit).toContain("RestartPreventExitStatus=2");
  });
});
