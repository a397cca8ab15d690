import { benchCore } from "./core.js";

/** Figures are ratios inside one run: machines are noisy. BENCH_EVENTS sets the size. */
const events = Number(process.env.BENCH_EVENTS ?? 300_000);
const { rows, ratio } = await benchCore(events);
console.table(rows);
console.log(`ratio of the export to the bare loop: ${ratio.toFixed(2)}`);
