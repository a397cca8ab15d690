import type { ServerResponse } from "node:http";
import type { Clock } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import { RouteError } from "../core/route.ts";
import type { RecentView } from "../core/view/events.ts";
import type { RatesView } from "../core/view/status.ts";
import type { View } from "../core/view.ts";
import { SECURITY_HEADERS } from "./headers.ts";

const TICK_MS = 2000;
const RECENT_MAX = 40;
/** A client that does not read is disconnected before its unread bytes use much memory. */
const UNREAD_BYTES_MAX = 4_000_000;
const BUCKETS_PER_TICK = 3;

export interface LiveStreamOptions {
  readonly view: View;
  readonly clock: Clock;
  readonly log: Log;
  readonly clientsMax: number;
  readonly signal: AbortSignal;
}

/**
 * The live stream (server-sent events): `status`, `sinks`, `rates` and `recent` every two seconds, and
 * `stopping` once. Made once for all clients, and only while there are any.
 */
export function createLiveStream({ view, clock, log, clientsMax, signal }: LiveStreamOptions) {
  const clients = new Set<ServerResponse>();
  let looping = false;
  let seenPage = 0;

  async function loop(): Promise<void> {
    looping = true;
    try {
      while (clients.size > 0 && !signal.aborted) {
        await clock.sleep(TICK_MS, signal).catch(() => {});
        if (clients.size > 0 && !signal.aborted) await tick();
      }
    } finally {
      looping = false;
    }
  }

  async function tick(): Promise<void> {
    try {
      const recent = await view.recent(seenPage, RECENT_MAX);
      broadcast(await snapshot(recent));
      seenPage = recent.endPage;
    } catch (error) {
      log.warn({ err: error }, "The live stream could not be written; trying again.");
    }
  }

  /** What a new client is shown. The others go on where they are. */
  async function firstLook(): Promise<string> {
    const recent = await view.recent(0, RECENT_MAX);
    if (!looping) seenPage = recent.endPage;
    return snapshot(recent);
  }

  async function snapshot(recent: RecentView): Promise<string> {
    return [
      message("status", await view.status()),
      message("sinks", await view.sinks()),
      message("rates", lastBuckets(view.rates())),
      ...(recent.events.length + recent.more > 0 ? [message("recent", recent)] : []),
    ].join("");
  }

  function broadcast(text: string): void {
    for (const client of clients) {
      if (client.writableLength > UNREAD_BYTES_MAX) client.destroy();
      else client.write(text);
    }
  }

  return {
    get clients(): number {
      return clients.size;
    },
    /** Takes over the response; refuses when there are too many clients. */
    async join(response: ServerResponse): Promise<void> {
      if (clients.size >= clientsMax)
        throw new RouteError(503, `There are ${clientsMax} live connections already, and no more are taken.`);
      clients.add(response);
      response.once("close", () => clients.delete(response));
      response.writeHead(200, {
        ...SECURITY_HEADERS,
        "content-type": "text/event-stream; charset=utf-8",
        "x-accel-buffering": "no",
      });
      response.write("retry: 3000\n\n");
      const first = await firstLook().catch((error: unknown) => {
        log.warn({ err: error }, "The live stream could not be written; trying again.");
        return "";
      });
      if (!response.destroyed) response.write(first);
      if (!looping) void loop();
    },
    /** Tells the pages that the process is stopping, so that they do not wait for it. */
    close(): void {
      for (const client of clients) client.end(message("stopping", {}));
    },
  };
}

function message(event: string, body: unknown): string {
  return `event: ${event}\ndata: ${JSON.stringify(body)}\n\n`;
}

/** The newest buckets, which may still grow. The whole hour is at /api/rates. */
function lastBuckets(rates: RatesView): RatesView {
  const left = Math.max(0, rates.received.length - BUCKETS_PER_TICK);
  return {
    bucketMs: rates.bucketMs,
    fromMs: rates.fromMs + left * rates.bucketMs,
    received: rates.received.slice(left),
    live: rates.live.slice(left),
    sent: Object.fromEntries(Object.entries(rates.sent).map(([name, list]) => [name, list.slice(left)])),
  };
}
