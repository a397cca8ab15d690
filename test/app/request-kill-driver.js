// Carries out the open requests of a state file and is killed before it can mark the first one as done:
// node request-kill-driver.js CONFIG. The environment variable KEY holds the account's key.

import { carryOutRequests } from "../../dist/src/app/requests.js";
import { openApp } from "../../dist/src/app.js";
import { loadConfig } from "../../dist/src/config/load.js";
import { systemClock } from "../../dist/src/core/clock.js";
import { silentLog } from "../../dist/src/core/log.js";
import { createRequests } from "../../dist/src/journal/command-queue.js";

const { config } = loadConfig(process.argv[2], process.env);
const app = await openApp({ config, log: silentLog, stdout: process.stdout });
const requests = {
  ...createRequests(app.db, systemClock),
  finish: () => process.kill(process.pid, "SIGKILL"),
};
await carryOutRequests(requests, app.actions, silentLog, new AbortController().signal);
