import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import { ordinaryMemory } from "../../src/core/buffer-pool.ts";
import { systemClock } from "../../src/core/clock.ts";
import { createMetrics, METRICS, silentMetrics } from "../../src/core/metrics.ts";
import type { LeasedBytes } from "../../src/core/page-lease.ts";
import { preparePage } from "../../src/core/prepare-page.ts";
import type { SinkDefinition } from "../../src/core/sink.ts";
import { createTraces } from "../../src/core/traces.ts";
import type { ArchiveView } from "../../src/core/view/archives.ts";
import { createRoster } from "../../src/journal/roster.ts";
import { createView } from "../../src/journal/view/view.ts";
import { registerGauges } from "../../src/server/gauges.ts";
import { countOrganizations } from "../../src/server/organization-metrics.ts";
import { createRates } from "../../src/server/rates.ts";
import { startTelemetry } from "../../src/telemetry.ts";
import { useCleanups } from "../support/cleanups.ts";
import { append, fillSmall, liveOf, makeState, organizationId } from "./state.ts";

const cleanups = useCleanups();

describe("what can be scraped", () => {
  it("has every gauge with the view's figures, under the names of the list", async () => {
    const state = makeState();
    cleanups.push(state.close);
    await fillSmall(state);
    const telemetry = startTelemetry({}, "1.2.3");
    cleanups.push(telemetry.close);
    const metrics = createMetrics(telemetry.meter);
    const archive: ArchiveView = {
      name: "evidence",
      daysClosed: 40,
      newestDay: "2025-02-10",
      oldestOpenDay: "2025-02-11",
      waitingEvents: 12,
      stagedBytes: 4096,
      logEntries: 44,
      checkpointMs: state.clock.now() - 120_000,
      verifiedMs: state.clock.now() - 60_000,
      findings: 0,
      differing: 0,
      holds: 1,
      dueRemovals: 0,
    };
    const view = {
      ...createView(state.db, liveOf(state.clock), state.options),
      archives: async () => ({ archives: [archive] }),
    };
    await registerGauges(metrics, view, state.clock).refresh();
    metrics.add("tidemark_sink_sent_events_total", 7, { sink: "lake" });
    metrics.record("tidemark_sink_write_seconds", 0.2, { sink: "lake" });
    const text = await telemetry.metricsText();
    expect(text).toContain('tidemark_sink_sent_events_total{sink="lake"} 7\n');
    expect(text).toContain('tidemark_sink_write_seconds_bucket{sink="lake",le="0.25"} 1\n');
    expect(text).toContain('tidemark_sink_lag_events{sink="siem"} 28\n');
    expect(text).toContain('tidemark_sink_state{sink="siem",state="paused"} 1\n');
    expect(text).toContain('tidemark_windows{account="acme",state="sealed"} 1\n');
    expect(text).toContain('tidemark_alarms{kind="sink_paused",severity="critical"} 1\n');
    expect(text).toContain('tidemark_dead_letters{sink="siem"} 2\n');
    expect(text).toContain('tidemark_archive_days{sink="evidence"} 40\n');
    expect(text).toContain('tidemark_archive_verification_age_seconds{sink="evidence"} 60\n');
    expect(text).toMatch(/service_name="tidemark"/);
    const names = [...text.matchAll(/^# TYPE (\S+) /gm)].map((match) => match[1]!);
    for (const name of names) expect([...Object.keys(METRICS), "target_info"]).toContain(name);
    const gauges = Object.entries(METRICS).filter(([, { kind }]) => kind === "gauge");
    // The gauges of a cluster are those of its machines.
    const isEmpty = (name: string) => name === "tidemark_import_jobs" || name.startsWith("tidemark_cluster_");
    for (const [name] of gauges) if (!isEmpty(name)) expect(names).toContain(name);
  });

  it("labels organizations only up to the set number of them", async () => {
    const state = makeState();
    cleanups.push(state.close);
    const telemetry = startTelemetry({}, "1.2.3");
    cleanups.push(telemetry.close);
    const metrics = createMetrics(telemetry.meter);
    const roster = countOrganizations(createRoster(state.db), metrics, 2);
    const two = [1, 2].map((number) => ({ id: organizationId(number), name: `n${number}` }));
    const events = new Map([[organizationId(1), { events: 5, newestMs: 1 }]]);
    await roster.seen("acme", two, 1);
    roster.addEvents("acme", events, true);
    await roster.seen("acme", [...two, { id: organizationId(3), name: "n3" }], 1);
    roster.addEvents("acme", events, true);
    expect(await telemetry.metricsText()).toContain(
      `tidemark_organization_events_total{account="acme",organization="${organizationId(1)}"} 5\n`,
    );
  });
});

describe("the last hour", () => {
  it("remembers events a second by bucket, and forgets what is older", () => {
    let nowMs = 1_000_000_000;
    const rates = createRates(silentMetrics, { ...systemClock, now: () => nowMs });
    rates.metrics.add("tidemark_journal_appended_events_total", 50);
    rates.metrics.add("tidemark_sink_sent_events_total", 10, { sink: "lake" });
    nowMs += 10_000;
    rates.metrics.add("tidemark_journal_appended_events_total", 5);
    expect(rates.view()).toMatchObject({ bucketMs: 5000, received: [10, 0, 1], sent: { lake: [2, 0, 0] } });
    nowMs += 3_600_000 - 5000;
    const later = rates.view();
    expect(later.received).toHaveLength(720);
    expect(later.received.slice(0, 2)).toEqual([0, 1].toReversed());
    expect(later.received.slice(1).every((rate) => rate === 0)).toBe(true);
  });
});

describe("what is pushed", () => {
  it("sends metrics and the whole trace of a page by OTLP when the variables ask for it", async () => {
    // biome-ignore lint/suspicious/noExplicitAny: bodies are looked into as they come.
    const bodies: { path: string; body: any }[] = [];
    const collector = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        bodies.push({ path: request.url!, body: JSON.parse(Buffer.concat(chunks).toString()) });
        response.writeHead(200, { "content-type": "application/json" }).end("{}");
      });
    });
    await new Promise<void>((resolve) => collector.listen(0, "127.0.0.1", resolve));
    cleanups.push(() => collector.close());
    const { port } = collector.address() as AddressInfo;
    process.env.OTEL_EXPORTER_OTLP_ENDPOINT = `http://127.0.0.1:${port}`;
    cleanups.push(() => {
      delete process.env.OTEL_EXPORTER_OTLP_ENDPOINT;
    });
    const state = makeState();
    cleanups.push(state.close);
    const telemetry = startTelemetry(process.env, "1.2.3");
    createMetrics(telemetry.meter).add("tidemark_journal_appended_events_total", 3, { account: "acme" });
    const traces = createTraces(telemetry.tracer!);
    const journal = traces.journal(state.journal);
    const lake = await journal.reader("lake");
    const siem = await journal.reader("siem");
    await append({ journal }, organizationId(1), 3);
    const definition = traces.sink("lake", {
      open: async () => ({
        limits: { recordsMax: 10, bytesMax: 1e6, ageMsMax: 0 },
        writesMax: 4,
        framed: true,
        layout: { prefix: "a/" },
        write: async () => undefined,
        close: async () => {},
      }),
    } as unknown as SinkDefinition);
    const sink = await definition.open({} as Parameters<typeof definition.open>[0]);
    // Delivery looks at these. A sink without a position must not seem to have lost it after a restart.
    expect(sink).toMatchObject({ writesMax: 4, framed: true, layout: { prefix: "a/" } });
    expect("position" in sink).toBe(false);
    const to = state.journal.end();
    await sink.write({ records: [], from: lake.position, to }, new AbortController().signal);
    await lake.commit(to, undefined);
    await siem.commit({ ...to, event: 2 }, undefined);
    await siem.commit(to, undefined);
    await telemetry.close();

    const metrics = bodies.filter(({ path }) => path === "/v1/metrics");
    expect(JSON.stringify(metrics)).toContain("tidemark_journal_appended_events_total");
    // biome-ignore lint/suspicious/noExplicitAny: see above.
    const spans: any[] = bodies
      .filter(({ path }) => path === "/v1/traces")
      .flatMap(({ body }) => body.resourceSpans[0].scopeSpans[0].spans);
    const root = spans.find(({ name }) => name === "page");
    const deliveries = spans.filter(({ name }) => name === "deliver");
    expect(deliveries).toHaveLength(2);
    for (const span of [...deliveries, spans.find(({ name }) => name === "journal.append")])
      expect([span.traceId, span.parentSpanId]).toEqual([root.traceId, root.spanId]);
    const write = spans.find(({ name }) => name === "sink.write");
    expect(write.links[0].traceId).toBe(root.traceId);
    const last = deliveries
      .map(({ endTimeUnixNano }) => BigInt(endTimeUnixNano))
      .sort()
      .at(-1)!;
    // Each span has a clock of its own, which agree to a fraction of a millisecond.
    expect(BigInt(root.endTimeUnixNano)).toBeGreaterThanOrEqual(last - 2_000_000n);
  });

  it("makes no traces unless they are asked for", async () => {
    for (const env of [
      {},
      { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1", OTEL_SDK_DISABLED: "true" },
    ]) {
      const telemetry = startTelemetry(env, "1.2.3");
      expect(telemetry.tracer).toBeUndefined();
      await telemetry.close();
    }
  });

  it("follows a page from its request through the bytes it shares with the append", async () => {
    const ended: string[] = [];
    const spans = new Map<string, { name: string }>();
    const tracer = {
      startSpan(name: string) {
        const span = {
          name,
          setAttributes: () => span,
          setAttribute: () => span,
          setStatus: () => span,
          isRecording: () => true,
          spanContext: () => ({ traceId: "1", spanId: "1", traceFlags: 1 }),
          end: () => void ended.push(name),
        };
        spans.set(name, span);
        return span;
      },
    };
    const leased = (bytes: Buffer): LeasedBytes => ({ bytes, lease: ordinaryMemory.adopt(bytes) });
    const traces = createTraces(tracer as unknown as Parameters<typeof createTraces>[0]);
    const events = traces.source("acme", {
      events: async () => ({ body: async () => leased(Buffer.from("[]")), discard() {} }),
    });
    (await events()).discard();
    expect(ended).toEqual(["source.request", "page"]);
    const failing = traces.source("acme", { events: () => Promise.reject(new Error("no")) });
    await expect(failing()).rejects.toThrow("no");
    expect(ended.slice(2)).toEqual(["source.request", "page"]);

    const state = makeState();
    cleanups.push(state.close);
    ended.length = 0;
    const journal = traces.journal(state.journal);
    const body = Buffer.from('[{"id":"1","organization":"a","timestamp":"2026-03-14T10:00:00Z"}]');
    const page = await traces.source("acme", {
      events: async () => ({ body: async () => leased(body), discard() {} }),
    })();
    const copying = traces.preparer({
      prepare: async ({ bytes }: LeasedBytes) =>
        preparePage(Buffer.from(bytes), { organizations: ["a"], provider: null }),
    });
    await journal.append({
      ...{ account: "acme", provider: null, organization: "a", fetchedAtMs: 0, edge: [], lateBeforeMs: 0 },
      ...{ reader: null, page: await copying.prepare(await page.body()), change: () => ({}) },
      lease: leased(body).lease,
    });
    expect(ended).toEqual(["source.request", "source.body", "page.prepare", "journal.append", "page"]);
  });
});
