import type { AlarmKind, Alarms } from "../core/alarms.ts";
import type { ImportDefinition } from "./config.ts";
import type { ImportStore } from "./store/open.ts";
import type { RunRow } from "./store/runs.ts";

/** Raises an alarm for an import whose last scheduled run failed, was missed or overlapped; a good run clears it. */
export function raiseRunAlarms(
  store: ImportStore,
  definitions: readonly ImportDefinition[],
  alarms: Alarms,
): void {
  for (const { name, schedule } of definitions) {
    if (schedule === undefined) continue;
    const [last] = store.runs.list({ import: name, limit: 1 });
    const trouble = last === undefined ? undefined : troubleOf(last);
    for (const kind of KINDS) if (kind !== trouble?.kind) alarms.clear(kind, name);
    if (trouble !== undefined) alarms.raise({ ...trouble, subject: name, severity: "warning" });
  }
}

const KINDS = ["import_failed", "import_missed", "import_overlapped"] as const satisfies readonly AlarmKind[];

function troubleOf(run: RunRow): { kind: AlarmKind; message: string; remedy: string } | undefined {
  const when = `The scheduled import of ${run.local.replace("T", " ")}`;
  if (run.outcome === "missed") {
    return {
      kind: "import_missed",
      message: `${when} was missed: ${run.reason ?? "not started in time"}.`,
      remedy: "Keep tidemark run working at that time, or start the import by hand: tidemark imports start.",
    };
  }
  if (run.outcome === "overlapped") {
    return {
      kind: "import_overlapped",
      message: `${when} was left out: job ${run.job} of the same import had not ended.`,
      remedy: `See tidemark imports show ${run.job}; end a job that hangs with tidemark imports resolve ${run.job} --ended, or schedule the import less often.`,
    };
  }
  if (run.jobState === "failed" || run.jobState === "uncertain") {
    return {
      kind: "import_failed",
      message: `${when} ${run.jobState === "failed" ? "failed" : "may not have started"}: ${run.reason ?? "no reason is known"}.`,
      remedy: `See tidemark imports show ${run.job}, remove the cause, and start the import again.`,
    };
  }
  return undefined;
}
