import type { App } from "../app.ts";
import { formatDuration } from "../core/time.ts";
import { createProgress } from "../journal/progress.ts";
import type { Io } from "./io.ts";

const EVERY_MS = 500;
const LOG_EVERY_MS = 10_000;
const WIDTH = 30;

/** A bar with rate and remaining time where a person watches, a line now and then where nobody does. */
export function showProgress(io: Io, app: App): { stop(): void } {
  const startedMs = Date.now();
  const progress = createProgress(app.db);
  const totalMs = progress.unreadMs();
  const eventsBefore = progress.events();
  let loggedMs = startedMs;

  function line(): string {
    const leftMs = progress.unreadMs();
    const done = totalMs === 0 ? 1 : Math.min(1, Math.max(0, 1 - leftMs / totalMs));
    const tookMs = Date.now() - startedMs;
    const count = progress.events() - eventsBefore;
    const rate = Math.round(count / Math.max(0.001, tookMs / 1000));
    const remaining =
      done > 0.01 && done < 1 ? `, about ${formatDuration((tookMs / done) * (1 - done))} left` : "";
    return `${Math.floor(done * 100)}%, ${count} events, ${rate} a second${remaining}`;
  }

  function show(): void {
    if (io.interactive) {
      const text = line();
      const filled = Math.round((Number.parseInt(text, 10) / 100) * WIDTH);
      io.stderr.write(`\r\x1b[K[${"#".repeat(filled)}${"-".repeat(WIDTH - filled)}] ${text}`);
    } else if (Date.now() - loggedMs >= LOG_EVERY_MS) {
      loggedMs = Date.now();
      io.stderr.write(`Reading: ${line()}\n`);
    }
  }

  const timer = setInterval(show, EVERY_MS);
  return {
    stop() {
      clearInterval(timer);
      io.stderr.write(`${io.interactive ? "\r\x1b[K" : ""}Done: ${line()}\n`);
    },
  };
}
