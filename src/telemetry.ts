import type { Meter, Tracer } from "@opentelemetry/api";
import { OTLPMetricExporter } from "@opentelemetry/exporter-metrics-otlp-http";
import { PrometheusExporter, PrometheusSerializer } from "@opentelemetry/exporter-prometheus";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
} from "@opentelemetry/resources";
import {
  AggregationType,
  InstrumentType,
  MeterProvider,
  PeriodicExportingMetricReader,
  type ViewOptions,
} from "@opentelemetry/sdk-metrics";
import { BasicTracerProvider, BatchSpanProcessor } from "@opentelemetry/sdk-trace-base";

export interface Telemetry {
  readonly meter: Meter;
  /** undefined: tracing is off. */
  readonly tracer: Tracer | undefined;
  /** Everything measured, in Prometheus' text format. */
  metricsText(): Promise<string>;
  /** Sends the remaining data and stops. */
  close(): Promise<void>;
}

const SERIES_MAX = 20_000;
const PUSH_MS = 60_000;

/**
 * Starts the OpenTelemetry SDK; only this file knows it. Metrics can always be scraped. Metrics and traces are
 * pushed by OTLP when the standard OTEL_ variables ask for it. The exporters read the remaining variables
 * (headers, timeouts, certificates) themselves.
 */
export function startTelemetry(
  env: Readonly<Record<string, string | undefined>>,
  version: string,
): Telemetry {
  const resource = defaultResource()
    .merge(resourceFromAttributes({ "service.name": "tidemark", "service.version": version }))
    .merge(detectResources({ detectors: [envDetector] }));
  const named =
    env.OTEL_SERVICE_NAME === undefined
      ? resource
      : resource.merge(resourceFromAttributes({ "service.name": env.OTEL_SERVICE_NAME }));
  // The reader collects on request; its own HTTP server is never started.
  const scraped = new PrometheusExporter({ preventServerStart: true });
  const serializer = new PrometheusSerializer(undefined, false, undefined, false, true);
  const pushes = wants(env, "METRICS")
    ? [
        new PeriodicExportingMetricReader({
          exporter: new OTLPMetricExporter(),
          exportIntervalMillis: numberOf(env.OTEL_METRIC_EXPORT_INTERVAL, PUSH_MS),
          exportTimeoutMillis: numberOf(env.OTEL_METRIC_EXPORT_TIMEOUT, PUSH_MS / 2),
        }),
      ]
    : [];
  const metrics = new MeterProvider({ resource: named, readers: [scraped, ...pushes], views: VIEWS });
  const traces = wants(env, "TRACES")
    ? new BasicTracerProvider({
        resource: named,
        spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
      })
    : undefined;

  return {
    meter: metrics.getMeter("tidemark", version),
    tracer: traces?.getTracer("tidemark", version),
    async metricsText() {
      const { resourceMetrics, errors } = await scraped.collect();
      if (errors.length > 0) throw new AggregateError(errors, "Some metrics could not be read.");
      return serializer.serialize(resourceMetrics);
    },
    async close() {
      await Promise.allSettled([metrics.shutdown(), traces?.shutdown()]);
    },
  };
}

/** Buckets in seconds, from a fast disk write to a destination that hangs. */
const VIEWS: ViewOptions[] = [
  {
    instrumentType: InstrumentType.HISTOGRAM,
    aggregation: {
      type: AggregationType.EXPLICIT_BUCKET_HISTOGRAM,
      options: { boundaries: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60] },
    },
    aggregationCardinalityLimit: SERIES_MAX,
  },
  { instrumentName: "*", instrumentType: InstrumentType.COUNTER, aggregationCardinalityLimit: SERIES_MAX },
];

/** OTLP is used if an endpoint is set, or if the exporter is named. */
function wants(env: Readonly<Record<string, string | undefined>>, signal: "METRICS" | "TRACES"): boolean {
  if (env.OTEL_SDK_DISABLED?.toLowerCase() === "true") return false;
  const exporter = env[`OTEL_${signal}_EXPORTER`];
  if (exporter !== undefined && exporter !== "") return exporter.split(",").includes("otlp");
  return Boolean(env.OTEL_EXPORTER_OTLP_ENDPOINT || env[`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`]);
}

function numberOf(text: string | undefined, otherwise: number): number {
  const value = Number(text);
  return text !== undefined && Number.isFinite(value) && value > 0 ? value : otherwise;
}
