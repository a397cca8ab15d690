// Delivers the journal of a state file through one sink until nothing is left: SETTINGS as JSON. Expects to be killed.
import { PassThrough } from "node:stream";
import { createAlarms } from "../../dist/src/core/alarms.js";
import { systemClock } from "../../dist/src/core/clock.js";
import { silentLog } from "../../dist/src/core/log.js";
import { silentMetrics } from "../../dist/src/core/metrics.js";
import { createWake } from "../../dist/src/core/wake.js";
import { createDelivery } from "../../dist/src/delivery/deliver.js";
import { raw } from "../../dist/src/formats/raw.js";
import { openState } from "../../dist/src/journal/database.js";
import { createJournal } from "../../dist/src/journal/journal.js";
import { sinks } from "../../dist/src/sinks/index.js";

const { file, type, config } = JSON.parse(process.argv[2]);
const definition = sinks.find((sink) => sink.type === type);
const journal = createJournal(openState(file), systemClock);
const delivery = createDelivery({
  ...{ name: "sink", definition, config: definition.config.parse(config), format: raw.create({}) },
  ...{ reader: await journal.reader("sink"), journal: journal.id, wants: () => true },
  ...{ clock: systemClock, log: silentLog, alarms: createAlarms(systemClock, silentLog) },
  ...{ metrics: silentMetrics, stdout: new PassThrough(), wake: createWake(systemClock) },
  ...{ end: () => journal.end(), draining: () => true },
});
await delivery.drain(new AbortController().signal);
await delivery.close();
process.exit(0);
