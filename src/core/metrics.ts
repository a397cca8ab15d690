import type { Attributes, Counter, Histogram, Meter } from "@opentelemetry/api";

interface MetricDefinition {
  readonly kind: "counter" | "histogram" | "gauge";
  readonly unit: string;
  readonly description: string;
  readonly labels: readonly string[];
}

/** Every metric; the documentation and the checks of rules and dashboards are made from this list. */
export const METRICS = {
  tidemark_source_requests_total: {
    kind: "counter",
    unit: "",
    description: "Requests to the service by outcome.",
    labels: ["account", "outcome"],
  },
  tidemark_source_request_seconds: {
    kind: "histogram",
    unit: "s",
    description: "Time until the service's answer began.",
    labels: ["account"],
  },
  tidemark_source_received_bytes_total: {
    kind: "counter",
    unit: "By",
    description: "Bytes of pages, decompressed.",
    labels: ["account"],
  },
  tidemark_journal_appended_events_total: {
    kind: "counter",
    unit: "",
    description: "New events written to the journal.",
    labels: ["account"],
  },
  tidemark_journal_known_events_total: {
    kind: "counter",
    unit: "",
    description: "Events that were read again and are already held.",
    labels: ["account"],
  },
  tidemark_journal_repeated_events_total: {
    kind: "counter",
    unit: "",
    description: "Repeats in the service's own answers.",
    labels: ["account"],
  },
  tidemark_archive_closed_events_total: {
    kind: "counter",
    unit: "",
    description: "Events that were closed into an archive.",
    labels: ["sink"],
  },
  tidemark_archive_closed_parts_total: {
    kind: "counter",
    unit: "",
    description: "Parts of days that were closed into an archive.",
    labels: ["sink"],
  },
  tidemark_journal_changed_events_total: {
    kind: "counter",
    unit: "",
    description: "Events that were served again with other bytes.",
    labels: ["account"],
  },
  tidemark_journal_late_events_total: {
    kind: "counter",
    unit: "",
    description: "Events that appeared in the service after their time range was read.",
    labels: ["account"],
  },
  tidemark_archive_days: {
    kind: "gauge",
    unit: "",
    description: "Days of which an archive has closed at least one part.",
    labels: ["sink"],
  },
  tidemark_archive_waiting_events: {
    kind: "gauge",
    unit: "",
    description: "Events that wait for their day to be closed.",
    labels: ["sink"],
  },
  tidemark_archive_staged_bytes: {
    kind: "gauge",
    unit: "By",
    description: "Pages that were moved out of the journal until their days close.",
    labels: ["sink"],
  },
  tidemark_archive_checkpoint_age_seconds: {
    kind: "gauge",
    unit: "s",
    description: "Age of the newest entry of the archive's log.",
    labels: ["sink"],
  },
  tidemark_archive_verification_age_seconds: {
    kind: "gauge",
    unit: "s",
    description: "Time since the last daily verification.",
    labels: ["sink"],
  },
  tidemark_archive_findings: {
    kind: "gauge",
    unit: "",
    description: "Findings of the last daily verification; 0: the archive is valid.",
    labels: ["sink"],
  },
  tidemark_archive_holds: {
    kind: "gauge",
    unit: "",
    description: "Legal holds in force.",
    labels: ["sink"],
  },
  tidemark_journal_used_bytes: {
    kind: "gauge",
    unit: "By",
    description: "Disk that the state file uses, its log included.",
    labels: [],
  },
  tidemark_journal_budget_bytes: {
    kind: "gauge",
    unit: "By",
    description: "Disk that the state file may use before polling waits.",
    labels: [],
  },
  tidemark_windows: {
    kind: "gauge",
    unit: "",
    description: "Windows by state.",
    labels: ["account", "state"],
  },
  tidemark_windows_loss_hours: {
    kind: "gauge",
    unit: "h",
    description: "Hours until the service deletes the oldest unread events; absent when there are none.",
    labels: ["account"],
  },
  tidemark_organization_counted_events: {
    kind: "gauge",
    unit: "",
    description:
      "Events in closed windows as the service counts them and as they are held. Of at most 200 organizations; of more, only those that hold fewer than the service counts.",
    labels: ["account", "organization", "side"],
  },
  tidemark_gaps: {
    kind: "gauge",
    unit: "",
    description:
      "Gaps by state: lost ones cannot be read any more, refused ones are tried again. not_asked: the organization is not in the config any more, or the service no longer lists it.",
    labels: ["state"],
  },
  tidemark_gap_hours: {
    kind: "gauge",
    unit: "h",
    description: "Length of those gaps, summed over organizations.",
    labels: ["state"],
  },
  tidemark_live_lag_seconds: {
    kind: "gauge",
    unit: "s",
    description: "How far the live reading is behind the service's clock, worst stream.",
    labels: ["account"],
  },
  tidemark_organizations: {
    kind: "gauge",
    unit: "",
    description: "Organizations by state.",
    labels: ["account", "state"],
  },
  tidemark_organization_events_total: {
    kind: "counter",
    unit: "",
    description: "New events by organization; only below the set number of organizations.",
    labels: ["account", "organization"],
  },
  tidemark_sink_sent_events_total: {
    kind: "counter",
    unit: "",
    description: "Events that a sink has durably accepted.",
    labels: ["sink"],
  },
  tidemark_sink_sent_bytes_total: {
    kind: "counter",
    unit: "By",
    description: "Encoded bytes of those events.",
    labels: ["sink"],
  },
  tidemark_sink_errors_total: {
    kind: "counter",
    unit: "",
    description: "Failed writes by kind of error.",
    labels: ["sink", "kind"],
  },
  tidemark_sink_write_seconds: {
    kind: "histogram",
    unit: "s",
    description: "Time of one write.",
    labels: ["sink"],
  },
  tidemark_sink_lag_events: {
    kind: "gauge",
    unit: "",
    description: "Events in the journal that a sink has not passed, counted before its filter.",
    labels: ["sink"],
  },
  tidemark_sink_lag_seconds: {
    kind: "gauge",
    unit: "s",
    description: "Age of the oldest event that a sink has not passed, before its filter.",
    labels: ["sink"],
  },
  tidemark_sink_state: {
    kind: "gauge",
    unit: "",
    description: "1 for the state a sink is in.",
    labels: ["sink", "state"],
  },
  tidemark_dead_letters: {
    kind: "gauge",
    unit: "",
    description: "Dead letters that wait for a decision.",
    labels: ["sink"],
  },
  tidemark_alarms: {
    kind: "gauge",
    unit: "",
    description: "Active alarms by kind.",
    labels: ["kind", "severity"],
  },
  tidemark_drift_events_total: {
    kind: "counter",
    unit: "",
    description: "Events that did not fit their service's schema, by kind of drift.",
    labels: ["service", "kind"],
  },
  tidemark_cluster_lanes: {
    kind: "gauge",
    unit: "",
    description:
      "Lanes of the cluster that this machine has, by state; opening means that the state is replayed.",
    labels: ["state"],
  },
  tidemark_cluster_lane_behind_events: {
    kind: "gauge",
    unit: "",
    description: "Events of a lane that its slowest sink has not passed, counted before its filter.",
    labels: ["lane"],
  },
  tidemark_cluster_unowned_lanes: {
    kind: "gauge",
    unit: "",
    description: "Lanes of the cluster that no machine runs, as this machine sees it.",
    labels: [],
  },
  tidemark_cluster_fences_total: {
    kind: "counter",
    unit: "",
    description: "Lanes that were taken by another machine while they ran here.",
    labels: [],
  },
  tidemark_import_jobs: { kind: "gauge", unit: "", description: "Import jobs by state.", labels: ["state"] },
} as const satisfies Record<string, MetricDefinition>;

export type MetricName = keyof typeof METRICS;
type NamesOf<Kind extends MetricDefinition["kind"]> = {
  [Name in MetricName]: (typeof METRICS)[Name]["kind"] extends Kind ? Name : never;
}[MetricName];

export interface GaugeReading {
  readonly value: number;
  readonly attributes?: Attributes;
}

/** Where the parts report. The SDK behind the meter is set up in telemetry.ts. */
export interface Metrics {
  add(name: NamesOf<"counter">, value: number, attributes?: Attributes): void;
  record(name: NamesOf<"histogram">, value: number, attributes?: Attributes): void;
  /** Read when metrics are collected. */
  gauge(name: NamesOf<"gauge">, read: () => readonly GaugeReading[]): void;
}

export function createMetrics(meter: Meter): Metrics {
  const counters = new Map<string, Counter>();
  const histograms = new Map<string, Histogram>();
  const options = (name: MetricName) => ({
    description: METRICS[name].description,
    unit: METRICS[name].unit,
  });
  return {
    add(name, value, attributes) {
      const counter = counters.get(name) ?? meter.createCounter(name, options(name));
      counters.set(name, counter);
      counter.add(value, attributes);
    },
    record(name, value, attributes) {
      const histogram = histograms.get(name) ?? meter.createHistogram(name, options(name));
      histograms.set(name, histogram);
      histogram.record(value, attributes);
    },
    gauge(name, read) {
      meter.createObservableGauge(name, options(name)).addCallback((result) => {
        for (const { value, attributes } of read()) result.observe(value, attributes);
      });
    },
  };
}

export const silentMetrics: Metrics = { add() {}, record() {}, gauge() {} };
