import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { createMetrics, METRICS, type MetricName } from "../../src/core/metrics.ts";
import { startTelemetry } from "../../src/telemetry.ts";
import { programOnPath, skipUnless } from "../support/components.ts";

const DEPLOY = new URL("../../deploy/", import.meta.url);
const rules = parse(readFileSync(new URL("prometheus/alerts.yaml", DEPLOY), "utf8")) as {
  groups: { rules: { alert: string; expr: string; annotations: Record<string, string> }[] }[];
};
const dashboard = JSON.parse(readFileSync(new URL("grafana/tidemark.json", DEPLOY), "utf8")) as {
  panels: { id: number; title: string; gridPos: { x: number; w: number }; targets: { expr: string }[] }[];
};
const queries = [
  ...rules.groups.flatMap((group) => group.rules.map(({ alert, expr }) => [alert, expr] as const)),
  ...dashboard.panels.flatMap(({ title, targets }) => targets.map(({ expr }) => [title, expr] as const)),
];
const promtool = programOnPath("promtool");

/** The metric of the list that a series belongs to. */
function metricOf(series: string): MetricName | undefined {
  const base = series.replace(/_(bucket|sum|count)$/, "");
  if (base in METRICS && METRICS[base as MetricName].kind === "histogram") return base as MetricName;
  return series in METRICS && METRICS[series as MetricName].kind !== "histogram"
    ? (series as MetricName)
    : undefined;
}

describe("alert rules and dashboard", () => {
  it.each(queries)("%s names metrics and labels that exist", (_, expr) => {
    const names = [...expr.matchAll(/\btidemark_\w+/g)].map(([name]) => name);
    if (names.length === 0) expect(expr).toMatch(/^up\{/);
    const labels = new Set(["instance", "job", "le"]);
    for (const name of names) {
      expect([name, metricOf(name)]).toEqual([name, expect.any(String)]);
      for (const label of METRICS[metricOf(name)!].labels) labels.add(label);
    }
    const used = [
      ...[...expr.matchAll(/[{,]\s*(\w+)\s*(?:=|!=|=~|!~)"/g)].map((match) => match[1]!),
      ...[...expr.matchAll(/\b(?:by|on)\s*\(([^)]*)\)/g)].flatMap((match) => match[1]!.split(/,\s*/)),
    ];
    for (const label of used) expect([...labels]).toContain(label);
  });

  it("covers every metric in the dashboard", () => {
    const shown = JSON.stringify(dashboard.panels);
    for (const name of Object.keys(METRICS)) expect(shown).toContain(name);
  });

  it("says what is the case and what to do in every alert", () => {
    for (const { annotations } of rules.groups.flatMap((group) => group.rules))
      expect([annotations.summary, annotations.description]).toEqual([
        expect.any(String),
        expect.any(String),
      ]);
  });

  it("gives every panel its own id, inside the grid", () => {
    expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length);
    for (const { gridPos } of dashboard.panels) expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
  });

  describe.skipIf(skipUnless("promtool", promtool, "install the Debian package prometheus"))(
    "promtool",
    () => {
      const folder = fileURLToPath(new URL("prometheus/", DEPLOY));
      const run = (args: readonly string[], input?: string) =>
        execFileSync(promtool!, args, { cwd: folder, input, encoding: "utf8", stdio: "pipe" });

      it("finds the rules in order", () => {
        expect(run(["check", "rules", "alerts.yaml"])).toContain("SUCCESS");
      });

      it("sees the alerts fire when they should, and not otherwise", () => {
        expect(run(["test", "rules", "alerts.test.yaml"])).toContain("SUCCESS");
      });

      it("accepts what can be scraped", async () => {
        const telemetry = startTelemetry({}, "1.2.3");
        const metrics = createMetrics(telemetry.meter);
        for (const [name, { kind, labels }] of Object.entries(METRICS)) {
          const attributes = Object.fromEntries(labels.map((label) => [label, 'a "quoted"\nvalue']));
          if (kind === "counter") metrics.add(name as Parameters<typeof metrics.add>[0], 1, attributes);
          else if (kind === "gauge")
            metrics.gauge(name as Parameters<typeof metrics.gauge>[0], () => [{ value: 1, attributes }]);
          else metrics.record(name as Parameters<typeof metrics.record>[0], 1, attributes);
        }
        const text = await telemetry.metricsText();
        await telemetry.close();
        for (const name of Object.keys(METRICS)) expect(text).toContain(`# TYPE ${name} `);
        // Exit code 3 is advice about names; what cannot be parsed is 1.
        let code = 0;
        try {
          run(["check", "metrics"], text);
        } catch (error) {
          code = (error as { status: number }).status;
        }
        expect([0, 3]).toContain(code);
      });
    },
  );
});
