import { setMaxListeners } from "node:events";
import type { Socket } from "node:net";
import type { Clock } from "../../core/clock.ts";
import { RetryableError } from "../../core/errors.ts";
import { formatDuration } from "../../core/time.ts";
import type { SyslogConnection } from "./lasting.ts";
import { type ConnectionOptions, destinationOf, guarded, isStanding, openSocket, writeTo } from "./socket.ts";
import { unacknowledgedBytes } from "./unacknowledged.ts";

/*
 * syslog has no answers, but the end of a connection is one. A kernel resets a connection that is closed with unread
 * bytes. So a receiver that ends the connection in order, after our own end, has read everything.
 *
 *   1. Batches are written to one connection: a round. None of them counts as delivered yet.
 *   2. The round ends when no batch has come for a while, or when it is old or large enough.
 *   3. It waits until the receiver's machine has every byte. Otherwise an end that the receiver happens to send at the
 *      same time could be taken for its answer while bytes are still under way.
 *   4. We end our direction, and the receiver ends its own: all batches of the round are delivered.
 *   5. A reset, an error, an end before ours, or none in time: no batch of the round counts, and delivery writes all of
 *      them again.
 *
 * The next batch opens the next connection. Rounds follow one another, so messages keep their order.
 */

/** Batches of one round, and so writes at once. */
export const BATCHES_MAX = 100;
const IDLE_MS = 1000;
const ROUND_MS_MAX = 5000;
const ROUND_BYTES_FIRST = 1_000_000;
/** After an outage a round that is too small would take one batch only, and many of them to become larger. */
const ROUND_BYTES_MIN = 10_000;
const ROUND_BYTES_MAX = 4_000_000;
/** How long bytes may be under way where the kernel does not show it. */
const UNDER_WAY_MS = 1000;
const LOOK_MS = 20;

interface Round {
  readonly startedMs: number;
  /** Batches that are not written yet. */
  readonly queue: Uint8Array[];
  batches: number;
  bytes: number;
  isEnding: boolean;
  /** Aborted when a batch comes. */
  more: AbortController;
  /** Aborted with the error that ends the round. */
  readonly stop: AbortController;
  /** Settles with the outcome for all batches. */
  readonly done: Promise<void>;
}

export function makeRounds(options: ConnectionOptions): SyslogConnection {
  const { clock, timeoutMs } = options;
  const destination = destinationOf(options);
  /** From `connect`, for the first round. */
  let spare: Socket | undefined;
  let round: Round | undefined;
  /** Smaller for a receiver that does not read so much in time. */
  let roundBytes = ROUND_BYTES_FIRST;

  function begin(): Round {
    const stop = new AbortController();
    let started!: (begun: Round) => void;
    const done = new Promise<Round>((resolve) => {
      started = resolve;
    }).then(play);
    done.catch(() => {});
    const counts = { startedMs: clock.now(), queue: [], batches: 0, bytes: 0, isEnding: false };
    const begun: Round = { ...counts, more: new AbortController(), stop, done };
    started(begun);
    return begun;
  }

  async function play(played: Round): Promise<void> {
    const { signal } = played.stop;
    let socket: Socket | undefined;
    try {
      const open = await guarded(options, signal, connected);
      socket = open;
      for (let isIdle = false; played.queue.length > 0 || (!isIdle && takesMore(played)); ) {
        const bytes = played.queue.shift();
        if (bytes === undefined) isIdle = !(await hasMore(played, clock));
        else await guarded(options, signal, (inner) => writeTo(open, bytes, inner));
      }
      // In the same turn as the look at the queue: a batch that comes later is for the next round.
      played.isEnding = true;
      await confirmed(open, signal);
    } catch (error) {
      // It may have half a message.
      socket?.destroy();
      throw error;
    } finally {
      if (round === played) round = undefined;
    }
  }

  async function connected(signal: AbortSignal): Promise<Socket> {
    const standing = spare;
    spare = undefined;
    if (standing && isStanding(standing)) return standing;
    standing?.destroy();
    return openSocket(options, signal, { isAccepted: false });
  }

  function takesMore({ isEnding, batches, bytes, startedMs }: Round): boolean {
    const isYoung = clock.now() - startedMs < ROUND_MS_MAX;
    return !isEnding && batches < BATCHES_MAX && bytes < roundBytes && isYoung;
  }

  /** Steps 3 and 4. */
  async function confirmed(socket: Socket, signal: AbortSignal): Promise<void> {
    const startedMs = clock.now();
    try {
      await guarded(options, signal, async (inner) => {
        await allArrived(socket, clock, inner);
        await endedByReceiver(socket, inner);
      });
    } catch (error) {
      if (signal.aborted || clock.now() - startedMs < timeoutMs) throw error;
      roundBytes = Math.max(roundBytes / 2, ROUND_BYTES_MIN);
      throw new RetryableError(
        `${destination} did not end the connection within ${formatDuration(timeoutMs)}, as a receiver does that has read everything. It may not have read the last messages, so they are sent again. If it works and never ends a connection, set confirm to write.`,
      );
    }
    if (clock.now() - startedMs < timeoutMs / 4) roundBytes = Math.min(roundBytes * 2, ROUND_BYTES_MAX);
  }

  return {
    connect: (signal) =>
      guarded(options, signal, async (inner) => {
        spare = await openSocket(options, inner, { isAccepted: true });
      }),
    async send(bytes, signal) {
      signal.throwIfAborted();
      const abort = () => round?.stop.abort(signal.reason);
      setMaxListeners(0, signal);
      signal.addEventListener("abort", abort, { once: true });
      try {
        // If the round before fails, this batch fails too: it must not overtake those that are written again.
        while (round !== undefined && !takesMore(round)) {
          round.more.abort();
          await round.done;
        }
        round ??= begin();
        round.batches++;
        round.bytes += bytes.length;
        round.queue.push(bytes);
        round.more.abort();
        await round.done;
      } finally {
        signal.removeEventListener("abort", abort);
      }
    },
    async close() {
      round?.stop.abort(new RetryableError("The sink was closed."));
      await round?.done.catch(() => {});
      spare?.destroy();
      spare = undefined;
    },
  };
}

/** Whether another batch comes before the round is idle for too long. */
async function hasMore(round: Round, clock: Clock): Promise<boolean> {
  if (round.queue.length > 0) return true;
  round.more = new AbortController();
  const either = AbortSignal.any([round.more.signal, round.stop.signal]);
  await clock.sleep(IDLE_MS, either).catch(() => {});
  round.stop.signal.throwIfAborted();
  return round.queue.length > 0;
}

const EARLY_END =
  "The receiver ended the connection. It may not have read the last messages, so they are sent again.";

function endOf(socket: Socket): Error {
  return socket.errored ?? new RetryableError(EARLY_END);
}

async function allArrived(socket: Socket, clock: Clock, signal: AbortSignal): Promise<void> {
  for (;;) {
    const left = await unacknowledgedBytes(socket);
    if (!isStanding(socket)) throw endOf(socket);
    if (left === 0) return;
    await clock.sleep(left === undefined ? UNDER_WAY_MS : LOOK_MS, signal);
    if (left === undefined) return;
  }
}

/** Ends our direction and waits for the receiver's end. */
function endedByReceiver(socket: Socket, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    // The time may have passed during the last look at what is under way: no event tells that any more.
    if (signal.aborted) return reject(signal.reason);
    if (!isStanding(socket)) return reject(endOf(socket));
    const abort = () => socket.destroy(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    socket.once("close", () => {
      signal.removeEventListener("abort", abort);
      if (socket.readableEnded && !socket.errored) resolve();
      else reject(endOf(socket));
    });
    socket.end();
  });
}
