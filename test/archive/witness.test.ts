import { hash } from "node:crypto";
import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { cosignedAtMs, parseCheckpoint, signCheckpoint } from "../../src/archive/log/checkpoint.ts";
import { COSIGNATURE, newSignerText, parseSigner, parseVerifier } from "../../src/archive/log/note.ts";
import { consistencyProof, leafHash, leavesOf, rootOf } from "../../src/archive/log/tree.ts";
import { createWitnessClient } from "../../src/archive/witness/client.ts";
import { createWitness } from "../../src/archive/witness/server.ts";
import { systemClock } from "../../src/core/clock.ts";
import { DecisionNeededError } from "../../src/core/errors.ts";
import { openWorld as openProgram } from "../support/world.ts";
import { A, DAY, never, openWorld } from "./world.ts";

const ORIGIN = "example.com/witnessed";
const log = parseSigner(newSignerText(ORIGIN));
const witness = parseSigner(newSignerText("witness.example/w1", COSIGNATURE));
const entries = Array.from({ length: 20 }, (_, index) => Buffer.from(`entry ${index}`));
const leaves = leavesOf(Buffer.concat(entries.map((entry) => leafHash(entry))));
const at = (size: number) => signCheckpoint({ origin: ORIGIN, size, root: rootOf(leaves, 0, size) }, [log]);

let folder: string;
let server: Server;
let url: string;

async function start(): Promise<void> {
  server = createWitness({ signer: witness, logs: [log.verifier], folder, clock: systemClock });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
async function stop(): Promise<void> {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "tidemark-witness-"));
  await start();
});
afterEach(async () => {
  await stop();
  rmSync(folder, { recursive: true });
});

async function add(oldSize: number, proof: readonly Buffer[], note: string) {
  const body = [`old ${oldSize}`, ...proof.map((node) => node.toString("base64")), "", note].join("\n");
  const answer = await fetch(`${url}/add-checkpoint`, { method: "POST", body });
  return { status: answer.status, type: answer.headers.get("content-type"), text: await answer.text() };
}

describe("the witness", () => {
  test("cosigns growth and answers every case of the protocol", async () => {
    expect(await add(0, [], at(3))).toMatchObject({ status: 200 });
    expect(await add(0, [], at(5))).toMatchObject({ status: 409, type: "text/x.tlog.size", text: "3\n" });
    const cosigned = await add(3, consistencyProof(leaves, 3, 9), at(9));
    expect(cosigned.status).toBe(200);
    const note = parseCheckpoint(Buffer.from(at(9) + cosigned.text)).note;
    expect(cosignedAtMs(note, witness.verifier)).toBeGreaterThan(Date.now() - 60_000);
    expect(await add(9, [], at(9))).toMatchObject({ status: 200 });
    expect(await add(9, consistencyProof(leaves, 8, 12), at(12))).toMatchObject({ status: 422 });
    const fork = signCheckpoint({ origin: ORIGIN, size: 9, root: leafHash() }, [log]);
    expect(await add(9, [], fork)).toMatchObject({ status: 422 });
    expect(await add(12, [], at(9))).toMatchObject({ status: 400 });
    expect(
      await add(
        9,
        [],
        signCheckpoint({ origin: "example.com/other", size: 9, root: leafHash() }, [
          parseSigner(newSignerText("example.com/other")),
        ]),
      ),
    ).toMatchObject({ status: 404 });
    expect(
      await add(
        9,
        [],
        signCheckpoint({ origin: ORIGIN, size: 12, root: rootOf(leaves, 0, 12) }, [
          parseSigner(newSignerText(ORIGIN)),
        ]),
      ),
    ).toMatchObject({ status: 403 });
    expect((await fetch(`${url}/add-checkpoint`, { method: "POST", body: "nonsense" })).status).toBe(400);
  });

  test("remembers over a restart, serves what it cosigned, and lets one of two racing requests win", async () => {
    await add(0, [], at(4));
    await stop();
    await start();
    const both = await Promise.all([
      add(4, consistencyProof(leaves, 4, 8), at(8)),
      add(4, consistencyProof(leaves, 4, 6), at(6)),
    ]);
    expect(both.map(({ status }) => status).sort()).toEqual([200, 409]);
    const shown = await fetch(`${url}/${hash("sha256", ORIGIN, "hex")}/checkpoint`);
    expect(parseCheckpoint(Buffer.from(await shown.text())).size).toBe(both[0]!.status === 200 ? 8 : 6);
  });

  test("the client finds the size that the witness knows, and refuses an answer without a valid cosignature", async () => {
    await add(0, [], at(4));
    const client = createWitnessClient(url, witness.verifier);
    expect(await client.cosign(parseCheckpoint(Buffer.from(at(7))), entries.slice(0, 7), never)).toContain(
      "witness.example/w1",
    );
    await expect(
      client.cosign(parseCheckpoint(Buffer.from(at(5))), entries.slice(0, 5), never),
    ).rejects.toThrow();
    const other = parseSigner(newSignerText("witness.example/w1", COSIGNATURE));
    await expect(
      createWitnessClient(url, other.verifier).cosign(
        parseCheckpoint(Buffer.from(at(9))),
        entries.slice(0, 9),
        never,
      ),
    ).rejects.toThrow(
      `cosigns with the key ${witness.verifier.id}, and the config names ${other.verifier.id}`,
    );
  });

  describe("of somebody else", () => {
    const checkpoint = parseCheckpoint(Buffer.from(at(7)));
    let stranger: Server;
    afterEach(() => {
      stranger.closeAllConnections();
      stranger.close();
    });

    /** A server that answers with `answer` to every request. */
    async function startStranger(answer: (response: ServerResponse) => void): Promise<string> {
      stranger = createServer((request, response) => {
        request.resume();
        answer(response);
      });
      await new Promise<void>((resolve) => stranger.listen(0, "127.0.0.1", resolve));
      return `http://127.0.0.1:${(stranger.address() as AddressInfo).port}`;
    }

    test.each<[string, (response: ServerResponse) => void]>([
      ["does not answer", () => {}],
      ["stops in its answer", (response) => response.writeHead(200).write("— ")],
    ])("that %s is given up, although garbage is collected meanwhile", async (_name, answer) => {
      const address = await startStranger(answer);
      setFlagsFromString("--expose_gc");
      const collecting = setInterval(runInNewContext("gc") as () => void, 20);
      const asking = createWitnessClient(address, witness.verifier, 500)
        .cosign(checkpoint, entries.slice(0, 7), never)
        .then(
          () => "answered",
          () => "given up",
        );
      try {
        const waited = new Promise((resolve) => setTimeout(resolve, 30_000, "still waiting").unref());
        expect(await Promise.race([asking, waited])).toBe("given up");
      } finally {
        clearInterval(collecting);
      }
    });

    test("whose answer has no end is given up after a few bytes of it", async () => {
      const chunk = Buffer.alloc(65_536, "a");
      let sent = 0;
      const address = await startStranger((response) => {
        response.writeHead(200);
        const go = () => {
          // An end, so that a client without a limit only fails this test.
          while (!response.destroyed && sent < 300_000_000) {
            sent += chunk.length;
            if (!response.write(chunk)) return response.once("drain", go);
          }
          return response.end();
        };
        go();
      });
      const client = createWitnessClient(address, witness.verifier);
      await expect(client.cosign(checkpoint, entries.slice(0, 7), never)).rejects.toThrow(
        "answered with more than 100000 bytes",
      );
      expect(sent).toBeLessThan(50_000_000);
    });
  });

  test.each([
    ["grown meanwhile", 9, 4],
    ["as long, with other entries", 4, 4],
    ["shorter, with other entries", 3, 4],
  ])("the client says that a decision is needed where the witness' log is %s", async (_name, known, own) => {
    const fork = entries.map((entry) => Buffer.concat([entry, Buffer.from(" of the other history")]));
    const forked = leavesOf(Buffer.concat(fork.map((entry) => leafHash(entry))));
    await add(0, [], at(known));
    const root = rootOf(forked, 0, own);
    const checkpoint = parseCheckpoint(
      Buffer.from(signCheckpoint({ origin: ORIGIN, size: own, root }, [log])),
    );
    const client = createWitnessClient(url, witness.verifier);
    await expect(client.cosign(checkpoint, fork.slice(0, own), never)).rejects.toThrow(DecisionNeededError);
  });

  test("an archive that was put back from an older copy together with its state publishes nothing", async () => {
    const world = await openProgram({ events: 50, organizations: 1 });
    try {
      const origin = "example.com/evidence";
      const key = (await world.run(["archive", "keys", "new", world.at("archive.key"), "--origin", origin]))
        .stdout;
      await stop();
      const logs = [parseVerifier(key.trim())];
      server = createWitness({ signer: witness, logs, folder, clock: systemClock });
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      const { port } = server.address() as AddressInfo;
      const witnesses = `witnesses: [{ url: "http://127.0.0.1:${port}", key: "${witness.verifier.text}" }]`;
      const place = `key: { file: ${world.at("archive.key")} }, store: { directory: ${world.at("archive")} }`;
      const config = world.configure({
        sinks: [`{ name: evidence, type: archive, origin: ${origin}, ${place}, settle: 0s, ${witnesses} }`],
      });
      const hold = (name: string) => world.run(["archive", "hold", "add", name, "-c", config]);
      expect((await world.run(["run", "--once", "-c", config])).code).toBe(0);
      cpSync(world.folder, `${world.folder}-copy`, { recursive: true });
      expect((await hold("A")).code).toBe(0);
      const good = await world.run(["check", "--online", "-c", config]);
      expect(good.stdout).toContain(
        "ok      archive evidence: the witness witness.example/w1 knows this history",
      );
      for (const name of ["archive", "state.db"]) {
        rmSync(world.at(name), { recursive: true });
        cpSync(join(`${world.folder}-copy`, name), world.at(name), { recursive: true });
      }
      const before = readFileSync(world.at("archive/log/checkpoint"), "utf8");
      const check = await world.run(["check", "--online", "-c", config]);
      expect(check.code).toBe(1);
      expect(check.stdout).toMatch(/FAILED {2}archive evidence: .*put back from an older copy/);
      const second = await hold("B");
      expect(second.stderr).toContain("put back from an older copy");
      expect(second.code).toBe(1);
      const run = await world.run(["run", "--once", "-c", config]);
      expect(run).toMatchObject({ code: 1, stdout: expect.stringContaining("could not continue") });
      expect(readFileSync(world.at("archive/log/checkpoint"), "utf8")).toBe(before);
    } finally {
      rmSync(`${world.folder}-copy`, { recursive: true, force: true });
      await world.close();
      await start();
    }
  });

  test("A21 a cosigned checkpoint carries a time that is not the operator's, and the archive goes on without the witness", async () => {
    const signer = parseSigner(newSignerText("example.com/archive"));
    await stop();
    server = createWitness({ signer: witness, logs: [signer.verifier], folder, clock: systemClock });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const client = createWitnessClient(url, witness.verifier);
    let away = 0;
    const world = await openWorld({
      signer,
      witnesses: [witness.verifier],
      cosign: async (checkpoint, all, signal) => {
        try {
          return [await client.cosign(checkpoint, all, signal)];
        } catch {
          away++;
          return [];
        }
      },
    });
    try {
      await world.seal([A], DAY, 0);
      await world.closeAll();
      const verification = await world.verify({ witnesses: [witness.verifier] });
      expect(verification.findings).toEqual([]);
      expect(verification.witnessedMs).toBeGreaterThan(Date.now() - 60_000);
      await stop();
      await world.seal([A], "2026-03-11", 0);
      await world.closeAll();
      expect(away).toBe(1);
      expect((await world.verify()).findings).toEqual([]);
      expect((await world.verify()).witnessedMs).toBeUndefined();
      expect((await world.verify()).unwitnessed).toEqual([witness.verifier.name]);
      // The key before is not asked for any more.
      const next = parseSigner(newSignerText(witness.verifier.name, COSIGNATURE));
      await world.restart({ witnesses: [next.verifier], cosign: async () => [] });
      expect((await world.verify()).unwitnessed).toEqual([next.verifier.name]);
      const old = await world.verify({ witnesses: [witness.verifier] });
      expect(old).toMatchObject({ findings: [], unwitnessed: [witness.verifier.name] });
      // The log says since when a witness is not asked, and what it cosigned before.
      const size = world.archive.leaves().length;
      await world.restart({ witnesses: [] });
      const { name, id } = witness.verifier;
      const ended = await world.verify();
      expect(ended).toMatchObject({ findings: [], unwitnessed: [], size: size + 1 });
      expect(ended.endedWitnesses).toEqual([
        { name: `${name}+${id}`, entry: size - 1, time: expect.any(String), last: expect.anything() },
        { name: `${name}+${next.verifier.id}`, entry: size, time: expect.any(String), last: null },
      ]);
      expect(ended.endedWitnesses[0]?.last?.atMs).toBe(verification.witnessedMs);
      await world.restart({ witnesses: [] });
      expect((await world.verify()).size).toBe(size + 1);
      await world.restart({ witnesses: [witness.verifier] });
      const again = await world.verify();
      expect(again).toMatchObject({ findings: [], unwitnessed: [name], size: size + 2 });
      expect(again.endedWitnesses).toMatchObject([{ name: `${name}+${next.verifier.id}` }]);
    } finally {
      world.end();
      await start();
    }
  });
});
