import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { kafka } from "../../src/sinks/kafka/sink.ts";
import { openSink } from "../contract/drive.ts";

/** Each ended the process, or filled its memory: kafkajs takes the first four bytes for the answer's length. */
describe("R38 a server that is no Kafka, at the address of a broker", () => {
  let server: Server | undefined;
  const sockets = new Set<Socket>();
  afterEach(() => {
    for (const socket of sockets) socket.destroy();
    server?.close();
  });

  async function openAt(answer: (socket: Socket) => void): Promise<unknown> {
    server = createServer((socket) => {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.once("data", () => answer(socket));
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    const { port } = server.address() as AddressInfo;
    return openSink({ definition: kafka, config: { brokers: [`127.0.0.1:${port}`], topic: "events" } });
  }

  test.each<[string, readonly number[]]>([
    ["a terminal server's greeting", [0xff, 0xfd, 0x18, 0xff, 0xfd, 0x20]],
    ["zeros", Array<number>(80).fill(0)],
    ["a length below the smallest", [0, 0, 0, 2, 1, 1]],
    ["text", [...Buffer.from("HTTP/1.1 400 Bad Request\r\n\r\n")]],
  ])("%s: the sink says so, and the process goes on", async (_, bytes) => {
    const opened = openAt((socket) => socket.write(Buffer.from(bytes)));
    await expect(opened).rejects.toThrow(/answers, but not as a Kafka broker does/);
  });

  test("an answer without an end is not collected", async () => {
    const piece = Buffer.alloc(1 << 20);
    let sent = 0;
    const opened = openAt((socket) => {
      socket.write(Buffer.from([0x7f, 0xff, 0xff, 0x00]));
      const fill = () => {
        while (!socket.destroyed && socket.write(piece)) sent += piece.length;
      };
      socket.on("drain", fill);
      fill();
    });
    await expect(opened).rejects.toThrow(/answers, but not as a Kafka broker does/);
    expect(sent).toBeLessThan(100 << 20);
  });
});
