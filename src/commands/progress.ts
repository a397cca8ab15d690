import type { App } from "../app.ts";
import { formatDuration } from "../core/time.ts";
import { createReadProgress } from "../journal/progress.ts";
import type { Io } from "./io.ts";

const EVERY_MS = 500;
const LOG_EVERY_MS = 10_000;
const WIDTH = 30;

/** A bar with rate and remaining time on a terminal, a line every ten seconds elsewhere. */
export function showProgress(io: Io, app: App): { stop(): void } {
  const startedMs = Date.now();
  const progress = createReadProgress(
    app.db,
    app.config.accounts.map(({ name }) => name),
  );
  const before = progress();
  let totalMs = before.unreadMs;
  let loggedMs = startedMs;

  /** The plan may be made after the start, so the total can still grow. */
  function line(): { share: number; text: string } {
    const { unreadMs, events } = progress();
    totalMs = Math.max(totalMs, unreadMs);
    const share = totalMs === 0 ? 0 : Math.min(1, Math.max(0, 1 - unreadMs / totalMs));
    const tookMs = Date.now() - startedMs;
    const count = events - before.events;
    const rate = Math.round(count / Math.max(0.001, tookMs / 1000));
    const remaining =
      share > 0.01 && share < 1 ? `, about ${formatDuration((tookMs / share) * (1 - share))} left` : "";
    return { share, text: `${Math.floor(share * 100)}% read, ${count} events, ${rate} a second${remaining}` };
  }

  function show(): void {
    const { share, text } = line();
    if (io.interactive) {
      const filled = Math.round(share * WIDTH);
      io.stderr.write(`\r\x1b[K[${"#".repeat(filled)}${"-".repeat(WIDTH - filled)}] ${text}`);
    } else if (Date.now() - loggedMs >= LOG_EVERY_MS) {
      loggedMs = Date.now();
      io.stderr.write(`Reading: ${text}\n`);
    }
  }

  const timer = setInterval(show, EVERY_MS);
  return {
    stop() {
      clearInterval(timer);
      if (io.interactive) io.stderr.write("\r\x1b[K");
    },
  };
}
