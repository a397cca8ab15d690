// Runs a machine of a cluster that leaves the group after seconds instead of minutes: CONFIG UNFIT_MS STAY_AWAY_MS.
import { PassThrough } from "node:stream";
import { runMachine } from "../../dist/src/app/cluster/run.js";
import { createLog } from "../../dist/src/commands/log.js";
import { loadConfig } from "../../dist/src/config/load.js";
import { systemClock } from "../../dist/src/core/clock.js";
import { createPreparer } from "../../dist/src/polling/prepare/preparer.js";

const [file, unfitMs, stayAwayMs] = process.argv.slice(2);
const { config } = loadConfig(file, process.env);
const stop = new AbortController();
process.once("SIGTERM", () => stop.abort(new Error("stopped")));
const log = createLog({ stderr: process.stderr, interactive: false, env: process.env }, "info");
await runMachine(
  {
    ...{ config, log, stdout: new PassThrough(), preparer: createPreparer(systemClock) },
    limits: { unfitMs: Number(unfitMs), stayAwayMs: Number(stayAwayMs) },
  },
  stop.signal,
);
process.exit(0);
