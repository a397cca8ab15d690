import { type AddressInfo, createServer } from "node:net";
import { expect, test } from "vitest";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import { makeRounds } from "../../src/sinks/syslog/rounds.ts";

const never = new AbortController().signal;

test("after many rounds that the receiver did not end, batches share a connection again at once", async () => {
  let hangs = true;
  let connections = 0;
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    connections++;
    socket.resume().on("error", () => {});
    if (!hangs) socket.on("end", () => socket.end());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  /** Time passes faster while the receiver hangs. */
  const [fast, startedMs] = [100, Date.now()];
  let [factor, beforeMs] = [fast, 0];
  const clock: Clock = {
    now: () => beforeMs + (Date.now() - startedMs) * factor,
    sleep: (ms, signal) => systemClock.sleep(ms / factor, signal),
  };
  const place = { host: "127.0.0.1", port, isTls: false, tls: undefined };
  const rounds = makeRounds({ ...place, timeoutMs: 30_000, clock });
  const batch = Buffer.from("100 bytes or less");
  try {
    for (let unended = 0; unended < 30; )
      await rounds.send(batch, never).catch((error: Error) => {
        if (error.message.includes("did not end the connection")) unended++;
      });
    [hangs, connections] = [false, 0];
    [factor, beforeMs] = [1, (Date.now() - startedMs) * fast];
    await Promise.all(Array.from({ length: 20 }, () => rounds.send(batch, never)));
    expect(connections).toBe(1);
  } finally {
    await rounds.close();
    server.close();
  }
}, 600_000);

test("a round whose time passes during its last look at the connection ends", async () => {
  const server = createServer({ allowHalfOpen: true }, (socket) => socket.resume().on("error", () => {}));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const timeoutMs = 30_000;
  let deadlines = 0;
  const clock: Clock = {
    now: () => Date.now(),
    // Those of the connection and of the write are far away; that of the confirmation is over at once.
    sleep: async (ms, signal) => {
      if (ms === timeoutMs && ++deadlines < 3) await systemClock.sleep(ms, signal);
    },
  };
  const { port } = server.address() as AddressInfo;
  const rounds = makeRounds({ host: "127.0.0.1", port, isTls: false, tls: undefined, timeoutMs, clock });
  try {
    await expect(rounds.send(Buffer.from("text"), never)).rejects.toThrow("No answer within 30000 ms.");
    expect(deadlines).toBe(3);
  } finally {
    await rounds.close();
    server.close();
  }
}, 20_000);
