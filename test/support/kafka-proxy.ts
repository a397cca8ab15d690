import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/** Numbers of Kafka's requests. */
export const API = {
  produce: 0,
  fetch: 1,
  listOffsets: 2,
  metadata: 3,
  findCoordinator: 10,
  createTopics: 19,
  initProducerId: 22,
  addPartitionsToTxn: 24,
  endTxn: 26,
  describeConfigs: 32,
} as const;

/**
 * cut_before: the broker never sees the request. cut_after: it answers, and the answer is dropped. hang: neither
 * goes on. pass: nothing happens, the test is notified. A promise: the request waits for it. A buffer: the broker
 * never sees the request, and this is the answer's body.
 */
export type Fault = "cut_before" | "cut_after" | "hang" | "pass" | Promise<void> | Buffer;

/** False answers in the versions that kafkajs speaks: no throttling, no error. */
export const FORGED = { addPartitionsToTxn: Buffer.alloc(8), endTxn: Buffer.alloc(6) } as const;

export interface FaultyProxy {
  readonly port: number;
  /** Where connections go; set once the broker's port is known. */
  target: number;
  /** The next request of this kind, after `skip` others of it, meets the fault; resolves when it does. */
  next(api: number, fault: Fault, skip?: number): Promise<void>;
  /** Ends all connections and accepts none until `accept`. */
  refuse(): void;
  accept(): void;
  /** Ends all connections; new ones are accepted. */
  cutAll(): void;
  /** How many requests of each kind have come so far. */
  requests(): ReadonlyMap<number, number>;
  close(): Promise<void>;
}

interface Trap {
  readonly api: number;
  readonly fault: Fault;
  skip: number;
  readonly met: () => void;
}

/** Stands between the sink and a broker and knows just enough of the protocol to cut at a given request. */
export async function startProxy(): Promise<FaultyProxy> {
  const sockets = new Set<Socket>();
  const traps: Trap[] = [];
  let refusing = false;
  const requests = new Map<number, number>();
  const proxy = { target: 0 };
  const server: Server = createServer((client) => {
    track(sockets, client);
    if (refusing) return client.destroy();
    const broker = connect(proxy.target, "127.0.0.1");
    track(sockets, broker);
    relay(client, broker, (api) => {
      requests.set(api, (requests.get(api) ?? 0) + 1);
      return takeTrap(traps, api);
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const cutAll = () => {
    for (const socket of sockets) socket.destroy();
  };
  return Object.assign(proxy, {
    port: (server.address() as AddressInfo).port,
    next: (api: number, fault: Fault, skip = 0) =>
      new Promise<void>((met) => {
        traps.push({ api, fault, skip, met });
      }),
    refuse() {
      refusing = true;
      cutAll();
    },
    accept() {
      refusing = false;
      traps.length = 0;
    },
    cutAll,
    requests: () => new Map(requests),
    async close() {
      cutAll();
      await new Promise((done) => server.close(done));
    },
  });
}

function track(sockets: Set<Socket>, socket: Socket): void {
  sockets.add(socket);
  socket.on("error", () => {});
  socket.once("close", () => sockets.delete(socket));
}

function takeTrap(traps: Trap[], api: number): Trap | undefined {
  const at = traps.findIndex((trap) => trap.api === api);
  const trap = traps[at];
  if (!trap) return undefined;
  if (trap.skip-- > 0) return undefined;
  traps.splice(at, 1);
  return trap;
}

function relay(client: Socket, broker: Socket, trapFor: (api: number) => Trap | undefined): void {
  let awaited: { readonly correlationId: number; readonly met: () => void } | undefined;
  client.on(
    "data",
    frames((frame) => {
      const trap = trapFor(frame.readInt16BE(4));
      if (trap?.fault === "cut_before") {
        client.destroy();
        broker.destroy();
        trap.met();
        return;
      }
      if (trap?.fault === "cut_after") awaited = { correlationId: frame.readInt32BE(8), met: trap.met };
      else trap?.met();
      if (trap?.fault === "hang") return;
      if (Buffer.isBuffer(trap?.fault)) return client.write(answerTo(frame, trap.fault));
      if (trap?.fault instanceof Promise) trap.fault.then(() => broker.write(frame));
      else broker.write(frame);
    }),
  );
  broker.on(
    "data",
    frames((frame) => {
      if (awaited?.correlationId === frame.readInt32BE(4)) {
        client.destroy();
        broker.destroy();
        awaited.met();
      } else if (!client.destroyed) client.write(frame);
    }),
  );
  client.on("end", () => broker.end());
  broker.on("end", () => client.end());
  client.on("close", () => broker.destroy());
  broker.on("close", () => client.destroy());
}

/** An answer's header is the request's correlation id alone, except in newer versions than kafkajs speaks. */
function answerTo(request: Buffer, body: Buffer): Buffer {
  const header = Buffer.alloc(8);
  header.writeInt32BE(4 + body.length);
  header.writeInt32BE(request.readInt32BE(8), 4);
  return Buffer.concat([header, body]);
}

/** Kafka's requests and answers begin with their length. */
function frames(take: (frame: Buffer) => void): (data: Buffer) => void {
  let held: Buffer = Buffer.alloc(0);
  return (data) => {
    held = held.length === 0 ? data : Buffer.concat([held, data]);
    while (held.length >= 4 && held.length >= 4 + held.readInt32BE(0)) {
      const length = 4 + held.readInt32BE(0);
      take(held.subarray(0, length));
      held = held.subarray(length);
    }
  };
}
