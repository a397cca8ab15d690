import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { secretOf } from "../../src/core/secret.ts";
import { putMeta, SHARD } from "../../src/journal/shard.ts";
import { createView } from "../../src/journal/view/view.ts";
import { ask, bearer, serve, type TestServer } from "../server/start.ts";
import { fillSmall, liveOf, makeState, type TestState } from "../server/state.ts";
import { launchChromium, openPage, skipBrowser, violationsOf } from "../support/chromium.ts";
import { useCleanups } from "../support/cleanups.ts";

const TOKEN = "write-token-0123456789";
const READ_TOKEN = "read-token-0123456789";
const STARTED_MS = 1_700_000_000_000;

describe("the page across shards", () => {
  const cleanups = useCleanups();

  async function shard(text: string, peers: readonly string[] = [], token = READ_TOKEN): Promise<TestServer> {
    const state: TestState = makeState();
    cleanups.push(() => state.close());
    await fillSmall(state);
    putMeta(state.db, SHARD, text);
    const startedMs = STARTED_MS + Number(text.split("/")[0]);
    const view = createView(state.db, liveOf(state.clock, { startedMs }), state.options);
    const server = await serve(view, {
      config: {
        token: secretOf(TOKEN),
        readToken: secretOf(READ_TOKEN),
        ...(peers.length === 0
          ? {}
          : { peers: { addresses: [...peers], token: secretOf(token), plainHttp: true } }),
      },
    });
    cleanups.push(() => server.close());
    return server;
  }

  const list = async (server: TestServer) =>
    (await ask(server, "/api/peers", { headers: bearer(READ_TOKEN) })).json;

  /** Takes requests and writes down their headers; answers with this status and body. */
  async function stranger(status: number, body: string, headers: Record<string, string> = {}) {
    const seen: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      seen.push(request.headers.authorization);
      response.writeHead(status, headers).end(body);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    cleanups.push(() => new Promise((resolve) => server.close(resolve)));
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen };
  }

  it("lists every shard once, itself included, with sums and the worst first", async () => {
    const [one, two] = [await shard("1/3"), await shard("2/3")];
    const zero = await shard("0/3", [one.url, two.url]);
    const all = await list(zero);
    expect(all).toMatchObject({ configured: true, problems: [], totals: { processes: 3, answering: 3 } });
    expect(all.peers.map(({ shard: text }: { shard: string }) => text)).toEqual(["0/3", "1/3", "2/3"]);
    const own = (await ask(zero, "/api/status", { headers: bearer(READ_TOKEN) })).json;
    expect(all.totals.events).toBe(3 * own.totals.events);
    expect(all.totals.organizations).toBe(3 * own.totals.organizations);
    expect(all.peers[0].alarms).toEqual(own.alarms);
    expect(JSON.stringify(all)).not.toContain(READ_TOKEN);
    expect((await ask(zero, "/api/peers")).status).toBe(401);
  });

  it("recognizes itself in a list that is the same everywhere", async () => {
    const one = await shard("1/2");
    const addresses = [one.url];
    const zero = await shard("0/2", addresses);
    addresses.push(zero.url);
    const same = await shard("0/2", [one.url, zero.url]);
    expect((await list(same)).peers).toHaveLength(2);
  });

  it("names shards that do not answer, refuse the token, are no Tidemark, or are read by none", async () => {
    const refusing = await stranger(401, "{}");
    const other = await stranger(200, "<html>");
    const twin = await shard("0/3");
    const closed = "http://127.0.0.1:1";
    const server = await shard("0/3", [refusing.url, other.url, closed, twin.url]);
    const { problems, peers, totals } = await list(server);
    const problemAt = (address: string) =>
      peers.find((peer: { address: string }) => peer.address === address)?.problem;
    expect(problemAt(refusing.url)).toContain("refuses the token of server.peers (401)");
    expect(problemAt(other.url)).toMatch(/JSON|not that of a Tidemark/);
    expect(problemAt(closed)).toContain("connection to the other shard failed");
    expect(totals).toMatchObject({ answering: 1 });
    expect(problems).toEqual([
      "No process that answers reads shard 1/3.",
      "No process that answers reads shard 2/3.",
    ]);
  });

  it("says when two processes read one shard", async () => {
    const twin = await shard("1/2");
    const third = await shard("1/2", [], READ_TOKEN);
    const server = await shard("0/2", [twin.url, third.url]);
    expect((await list(server)).problems).toEqual([
      "2 processes read shard 1/2: their events arrive more than once.",
    ]);
  });

  it("the token never follows a redirect", async () => {
    const thief = await stranger(200, "{}");
    const sending = await stranger(302, "", { location: thief.url });
    const server = await shard("0/2", [sending.url]);
    const { peers } = await list(server);
    expect(peers[0].problem).toContain("302");
    expect(sending.seen).toContain(`Bearer ${READ_TOKEN}`);
    expect(thief.seen).toEqual([]);
  });

  describe.skipIf(skipBrowser())("in the browser", () => {
    let browser: Browser;
    beforeAll(async () => {
      browser = await launchChromium();
    });
    afterAll(() => browser?.close());

    async function open(server: TestServer): Promise<{ page: Page; problems: string[] }> {
      const opened = await openPage(browser, server.url);
      cleanups.push(() => opened.page.context().close());
      await opened.page.locator("#token-dialog[open]").waitFor();
      await opened.page.fill("#token-input", READ_TOKEN);
      await opened.page.press("#token-input", "Enter");
      return opened;
    }

    it("shows the others with their totals, worst sink and problems, and those that do not answer", async () => {
      const one = await shard("1/3");
      const dead = "http://127.0.0.1:1";
      const zero = await shard("0/3", [one.url, dead]);
      const { page, problems } = await open(zero);
      await page.locator("#peers-panel:not([hidden])").waitFor();
      await expect.poll(() => page.locator("#peers > li").count()).toBe(3);
      const all = await list(zero);
      expect(await page.innerText("#peers-count")).toBe("2 of 3 answer");
      expect(await page.innerText("#peers-total")).toContain(
        `${all.totals.organizations} organizations, ${all.totals.events} events read`,
      );
      const rows = await page.locator("#peers > li").allInnerTexts();
      expect(rows[0]).toContain(dead);
      expect(rows[0]).toContain("It does not answer:");
      expect(rows.slice(1).join("\n")).toMatch(/Shard 0\/3[\s\S]*this page[\s\S]*Shard 1\/3/);
      const peer = all.peers.find(({ shard: text }: { shard: string }) => text === "1/3");
      const row = await page.innerText(`#peers > li[data-key="${one.url}"]`);
      expect(row).toContain(peer.headline);
      expect(row).toContain(`worst sink: ${peer.sinks.worst.name}`);
      expect(row).toContain(peer.alarms[0].message);
      expect(await page.innerText("#peers-problems")).toContain("No process that answers reads shard 2/3.");
      expect(await page.innerText("#version")).toContain("shard 0/3");
      const stored = await page.evaluate("document.documentElement.outerHTML");
      expect(stored).not.toContain(READ_TOKEN);
      expect(await violationsOf(page, "peers-panel")).toEqual([]);
      expect(problems).toEqual([]);
    });

    it("has no such panel where the config lists no other shards", async () => {
      const { page } = await open(await shard("0/3"));
      await page.locator("#link[data-state=live]").waitFor();
      await page.locator("#rows .row:not([hidden])").first().waitFor();
      expect(await page.locator("#peers-panel").isHidden()).toBe(true);
    });
  });
});
