import { execFileSync } from "node:child_process";
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fetchOnce, programOnPath } from "./components.ts";
import { freePort } from "./ports.ts";
import { inTemporaryFolder, startProcess } from "./process.ts";

const BUILDER_VERSION = "0.164.0";
const VERSION = "0.162.0";

/** The OpenTelemetry Collector with an otlp receiver and a debug exporter; undefined when it was not built. */
export async function findOtelcol(): Promise<string | undefined> {
  if (!programOnPath("go")) return undefined;
  const folder = await fetchOnce("otelcol", `otelcol-${VERSION}`, async (target) => {
    const build = join(target, "build");
    writeFileSync(join(target, "builder.yaml"), builderConfiguration(build));
    const builder = `go.opentelemetry.io/collector/cmd/builder@v${BUILDER_VERSION}`;
    const options = ["--config", join(target, "builder.yaml"), "--skip-strict-versioning"];
    execFileSync("go", ["run", builder, ...options], { stdio: "inherit" });
    renameSync(join(build, "otelcol"), join(target, "otelcol"));
    rmSync(build, { recursive: true });
  });
  return folder && join(folder, "otelcol");
}

export interface Otelcol {
  readonly url: string;
  /** The debug exporter's output for every log record, over all restarts. */
  records(): readonly OtelRecord[];
  kill(): Promise<void>;
  restart(): Promise<void>;
  close(): Promise<void>;
}

export interface OtelRecord {
  readonly body: string;
  readonly timestamp: string;
  readonly severity: string;
  readonly attributes: Readonly<Record<string, string>>;
}

/** A collector of its own; its exporter writes before the receiver answers. */
export function startOtelcol(program: string, bodyBytesMax: number): Promise<Otelcol> {
  return inTemporaryFolder("tidemark-otelcol-", (folder) => startIn(folder, program, bodyBytesMax));
}

async function startIn(folder: string, program: string, bodyBytesMax: number): Promise<Otelcol> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const configuration = join(folder, "collector.yaml");
  writeFileSync(configuration, collectorConfiguration(port, bodyBytesMax));
  const isReady = async () => (await fetch(url)).status > 0;
  const outputFile = join(folder, "output");
  const start = () => startProcess(program, ["--config", configuration], { isReady, outputFile });
  let running = await start();
  return {
    url,
    records: () => recordsOf(running.output()),
    kill: () => running.kill("SIGKILL"),
    async restart() {
      running = await start();
    },
    async close() {
      await running.kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function recordsOf(output: string): OtelRecord[] {
  return output
    .split(/^LogRecord #\d+$/m)
    .slice(1)
    .map((text) => ({
      body: /^Body: Str\((.*)\)$/m.exec(text)?.[1] ?? "",
      timestamp: /^Timestamp: (.*)$/m.exec(text)?.[1] ?? "",
      severity: /^SeverityText: (.*)$/m.exec(text)?.[1] ?? "",
      attributes: Object.fromEntries(
        [...text.matchAll(/^ +-> ([\w.]+): Str\((.*)\)$/gm)].map(([, name, value]) => [name!, value!]),
      ),
    }));
}

function builderConfiguration(output: string): string {
  const [, minor] = VERSION.split(".");
  const provider = (name: string) =>
    `  - gomod: go.opentelemetry.io/collector/confmap/provider/${name}provider v1.${Number(minor) - 100}.0`;
  return `dist:
  name: otelcol
  output_path: ${output}
receivers:
  - gomod: go.opentelemetry.io/collector/receiver/otlpreceiver v${VERSION}
exporters:
  - gomod: go.opentelemetry.io/collector/exporter/debugexporter v${VERSION}
providers:
${["file", "yaml", "env"].map(provider).join("\n")}
`;
}

function collectorConfiguration(port: number, bodyBytesMax: number): string {
  return `receivers:
  otlp:
    protocols:
      http:
        endpoint: 127.0.0.1:${port}
        max_request_body_size: ${bodyBytesMax}
exporters:
  debug:
    verbosity: detailed
    sampling_initial: 100000
    sampling_thereafter: 1
service:
  telemetry:
    metrics:
      level: none
  pipelines:
    logs:
      receivers: [otlp]
      exporters: [debug]
`;
}
