import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { parseConfig } from "../../src/config/load.ts";
import { findHelm, KUBE_VERSION } from "../deploy/components.ts";
import { skipUnless } from "../support/components.ts";
import { blocks, ROOT } from "./pages.ts";

/** Completes a fragment of a config. */
const REST = {
  accounts: [{ name: "acme", region: "us", apiKey: { env: "DIRECTORY_API_KEY" } }],
  sinks: [{ name: "disk", type: "file", directory: "./events" }],
};

const yaml = blocks.filter(({ kind }) => kind.startsWith("yaml"));
const configs = yaml.filter(({ kind }) => kind !== "yaml helm");
const helmValues = yaml.filter(({ kind }) => kind === "yaml helm");
const helm = await findHelm();

describe("every config in the documentation", () => {
  it("is one of the kinds that are checked", () => {
    expect(new Set(yaml.map(({ kind }) => kind))).toEqual(
      new Set(["yaml", "yaml practice", "yaml walk", "yaml helm"]),
    );
    expect(configs.length).toBeGreaterThan(15);
  });

  it.each(configs.map((block) => [`${block.page}:${block.line}`, block.text]))(
    "%s is accepted by the program",
    (place, text) => {
      const whole = { ...REST, ...(parse(text) as object) };
      expect(() => parseConfig(JSON.stringify(whole), place)).not.toThrow();
    },
  );

  it("shows every type of sink that has a guide, and the README a whole config", () => {
    const shown = new Set(
      configs.flatMap(({ text }) => [...text.matchAll(/^\s+type: (\w+)$/gm)].map(([, type]) => type)),
    );
    for (const type of [
      ...["kafka", "file", "s3", "splunk_hec", "elasticsearch", "opensearch", "syslog", "sentinel"],
      ...["datadog", "sumo", "otlp"],
    ])
      expect(shown).toContain(type);
    const readme = configs.find(({ page, kind }) => page === "README.md" && kind === "yaml")!;
    expect(() => parseConfig(readme.text, "README.md")).not.toThrow();
  });

  it.skipIf(skipUnless("helm", helm, "go install helm.sh/helm/v3/cmd/helm@v3.22.0"))(
    "is accepted by the chart where it is its values, and the config that comes out by the program",
    () => {
      const folder = mkdtempSync(join(tmpdir(), "tidemark-values-"));
      try {
        for (const { text, page } of helmValues) {
          const file = join(folder, "values.yaml");
          writeFileSync(file, text);
          const args = [
            "template",
            "tidemark",
            "deploy/kubernetes/tidemark",
            ...KUBE_VERSION,
            "--values",
            file,
          ];
          const run = spawnSync(helm!, args, { cwd: ROOT, encoding: "utf8" });
          expect(run.stderr).toBe("");
          const map = parseAllDocuments(run.stdout)
            .map((document) => document.toJS() as { kind: string; data?: Record<string, string> })
            .find(({ kind }) => kind === "ConfigMap");
          const config = parseConfig(map!.data!["tidemark.yaml"]!, page);
          expect(config.accounts[0]!.name).toBe("acme");
        }
        expect(helmValues.length).toBeGreaterThan(0);
      } finally {
        rmSync(folder, { recursive: true });
      }
    },
  );
});
