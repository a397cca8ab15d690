import { readFileSync } from "node:fs";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { secretOf } from "../../src/core/secret.ts";
import { ask, bearer, type TestServer } from "../server/start.ts";
import { fillLarge, fillSmall, HOUR_MS, makeState, organizationId, type TestState } from "../server/state.ts";
import { launchChromium, openPage, skipBrowser, violationsOf } from "../support/chromium.ts";
import { serveScene, wavyRates } from "./scene.ts";

const TOKEN = "write-token-0123456789";
const READ_TOKEN = "read-token-0123456789";

describe.skipIf(skipBrowser())("the page", () => {
  let browser: Browser;
  let state: TestState;
  const cleanups: (() => unknown)[] = [];
  beforeAll(async () => {
    browser = await launchChromium();
    state = makeState();
    await fillSmall(state);
  });
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  });
  afterAll(async () => {
    await browser?.close();
    state?.close();
  });

  async function open(
    server: TestServer,
    options: Parameters<typeof openPage>[2] = {},
  ): Promise<{ page: Page; problems: string[] }> {
    cleanups.push(server.close);
    const opened = await openPage(browser, server.url, options);
    cleanups.push(() => opened.page.context().close());
    return opened;
  }
  const text = (page: Page, selector: string) => page.locator(selector).innerText();
  const api = async (server: TestServer, path: string) => (await ask(server, path)).json;

  it("says what the API says, in every panel", async () => {
    const server = await serveScene(state);
    const { page, problems } = await open(server);
    await page.locator("#link[data-state=live]").waitFor();
    const status = await api(server, "/api/status");
    await expect.poll(() => text(page, "#headline")).toBe(status.headline);
    expect(await text(page, "#subline")).toBe(
      `${status.totals.organizations} organizations, reading is at most 2 h behind, ${status.totals.events} events read.`,
    );
    const [alarm] = status.alarms;
    expect(await text(page, "#alarms li")).toContain(alarm.message);
    expect(await text(page, "#alarms li")).toContain(alarm.remedy);
    expect(await text(page, "#tile-held .figure")).toBe(
      `${status.totals.heldCount} of ${status.totals.apiCount}`,
    );
    expect(await text(page, "#tile-journal .hint")).toBe(
      `${status.journal.backlogEvents} events wait for ${status.journal.heldUpBy}`,
    );
    expect(await text(page, "#tile-loss .figure")).toBe(
      `${Math.floor(status.accounts[0].lossInMs / 86_400_000)} d`,
    );

    const { sinks } = await api(server, "/api/sinks");
    expect(await page.locator("#sinks > li").count()).toBe(sinks.length);
    for (const sink of sinks) {
      const card = await text(page, `#sinks > li[data-key=${sink.name}]`);
      expect(card).toContain(sink.state);
      expect(card).toContain(`${sink.lagEvents} events`);
      expect(card).toContain(`page ${sink.position.split(":")[1]}`);
      if (sink.remedy !== null) expect(card).toContain(sink.remedy);
    }

    const { rows } = await api(server, "/api/organizations");
    await page.locator("#rows .row:not([hidden])").nth(2).waitFor();
    expect(await page.locator("#rows .row:not([hidden]) b").allInnerTexts()).toEqual(
      rows.map(({ name }: { name: string }) => name),
    );
    expect(await page.locator("#rows .row:not([hidden]) .lag").allInnerTexts()).toEqual([
      "refused",
      "2 h · history",
      "35 s",
    ]);

    await expect.poll(() => page.locator("#calendar .day").count()).toBe(90);
    const yesterday = page.locator("#calendar .day").nth(-2);
    expect(await yesterday.getAttribute("aria-label")).toBe(
      "Fri 13 March (UTC): complete 33.3 %, read 33.3 %, refused 33.3 % (1 organization). The service counts 131 events, 130 are held, compared 1 h ago. 2 appeared late.",
    );

    const { groups, total } = await api(server, "/api/dead-letters");
    expect(await text(page, "#letters-count")).toBe(String(total));
    expect(await page.locator("#letters > li").count()).toBe(groups.length);
    expect(await text(page, "#letters > li:first-child")).toContain(groups[0].reason);

    const { jobs } = await api(server, "/api/imports");
    await page.locator("#jobs > li").waitFor();
    expect(await text(page, "#jobs > li")).toContain(
      `${jobs[0].counts.created} created, ${jobs[0].counts.updated} updated, ${jobs[0].counts.failed} failed`,
    );
    const { rows: drift } = await api(server, "/api/drift");
    expect(await text(page, "#drift > li")).toContain(drift[0].path);
    expect(await text(page, "#drift .figure")).toBe(String(drift[0].events));
    expect(await page.locator("#late li").nth(1).innerText()).toContain("2");
    expect(await text(page, "#accounts li")).toContain("our clock is 5 s slow");

    const { events } = await api(server, "/api/recent?limit=12");
    expect(await page.locator("#recent li").count()).toBe(12);
    expect(await text(page, "#recent li:first-child")).toContain(events.at(-1).eventType);
    const rates = await api(server, "/api/rates");
    const last = rates.live.slice(-7, -1);
    const mean = last.reduce((sum: number, rate: number) => sum + rate, 0) / last.length;
    expect(await text(page, "#tile-rate .figure")).toBe(`${mean.toFixed(1)}/s`);
    expect(await page.locator("#rate-chart canvas").count()).toBe(1);
    expect(await page.locator("#rate-chart").getAttribute("aria-label")).toContain(mean.toFixed(1));
    expect(problems).toEqual([]);
  });

  it("shows one organization's windows, by keyboard alone", async () => {
    const server = await serveScene(state);
    const { page, problems } = await open(server);
    await page.locator("#rows .row:not([hidden])").nth(2).waitFor();
    await page.keyboard.press("Tab");
    expect(await page.evaluate("document.activeElement.className")).toBe("skip");
    await page.focus("#search");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    expect(await page.locator("#rows").getAttribute("aria-activedescendant")).toBe("organization-1");
    await page.keyboard.press("Enter");
    await page.locator("#detail-dialog[open]").waitFor();
    const view = await api(server, `/api/windows?account=acme&organization=${organizationId(2)}`);
    expect(await text(page, "#detail-title")).toBe(view.name);
    expect(await page.locator("#detail-body tbody tr").count()).toBe(view.total);
    expect(await text(page, "#detail-body tbody tr:nth-child(2)")).toMatch(/Read\s+11\s+10/);
    await page.keyboard.press("Escape");
    await page.locator("#detail-dialog").waitFor({ state: "hidden" });
    await page.focus("#calendar");
    await page.keyboard.press("End");
    await page.keyboard.press("ArrowLeft");
    expect(await text(page, "#calendar-detail")).toContain("The service counts 131 events");
    expect(problems).toEqual([]);
  });

  it("searches as one types", async () => {
    const { page } = await open(await serveScene(state));
    await page.fill("#search", "bank");
    await expect.poll(() => text(page, "#organizations-count")).toBe("1 of 3");
    expect(await page.locator("#rows .row:not([hidden]) b").allInnerTexts()).toEqual(["Borealis Bank"]);
  });

  it("asks for the token, keeps it in the tab, and asks again for changes", async () => {
    const config = { token: secretOf(TOKEN), readToken: secretOf(READ_TOKEN) };
    const server = await serveScene(state, { config: { config } });
    const { page, problems } = await open(server);
    await page.locator("#token-dialog[open]").waitFor();
    await page.fill("#token-input", "wrong-token-0123456789");
    await page.keyboard.press("Enter");
    await expect.poll(() => text(page, "#token-reason")).toBe("That token is wrong. Try another.");
    await page.fill("#token-input", READ_TOKEN);
    await page.keyboard.press("Enter");
    await page.locator("#link[data-state=live]").waitFor();
    await page.locator("#letters > li").first().waitFor();
    expect(await page.evaluate("sessionStorage.getItem('tidemark.token')")).toBe(READ_TOKEN);

    const [{ id: group }] = (await ask(server, "/api/dead-letters", { headers: bearer(TOKEN) })).json.groups;
    await page.getByRole("button", { name: `Show group ${group}` }).click();
    await page.getByRole("button", { name: "Replay dead letter 2" }).click();
    await page.locator("#token-dialog[open]").waitFor();
    expect(await text(page, "#token-reason")).toContain("may only read");
    await page.fill("#token-input", TOKEN);
    await page.keyboard.press("Enter");
    await expect.poll(() => text(page, "#said")).toBe("1 dead letter returned to the journal.");
    await page.getByRole("button", { name: `Replay group ${group}` }).click();
    await expect.poll(() => text(page, "#said")).toBe("2 dead letters returned to the journal.");
    await page.getByRole("button", { name: `Delete group ${group}` }).click();
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await expect.poll(() => text(page, "#said")).toBe("2 dead letters deleted.");
    await page.getByRole("button", { name: "Try now" }).click();
    await expect.poll(() => text(page, "#said")).toBe("siem is tried now.");
    expect(server.asked).toEqual([
      ["replay", { ids: [2] }],
      ["replay", { group }],
      ["drop", { group }],
      ["retry", { sink: "siem" }],
    ]);
    expect(problems).toEqual([]);
  });

  it("shows a dead letter's event as text, whatever it holds", async () => {
    const server = await serveScene(state, { config: { config: { token: secretOf(TOKEN) } } });
    const { page, problems } = await open(server);
    await page.locator("#token-dialog[open]").waitFor();
    await page.fill("#token-input", TOKEN);
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: /^Show group/ }).click();
    await page.getByRole("button", { name: "Show dead letter 1" }).click();
    await page.locator("#detail-body pre").waitFor();
    expect(await text(page, "#detail-body pre")).toContain("must not be shown");
    expect(problems).toEqual([]);
  });

  it("says why a change is refused where no token is set", async () => {
    const { page } = await open(await serveScene(state));
    await page.getByRole("button", { name: "Try now" }).click();
    await expect.poll(() => text(page, "#said")).toContain("set server.token");
  });

  it("R40 when the connection is lost the headline, the title and the colours say so, until it is back", async () => {
    const server = await serveScene(state);
    const { page } = await open(server);
    await page.locator("#link[data-state=live]").waitFor();
    await expect.poll(() => text(page, "#headline")).toContain("siem is paused");
    await expect.poll(() => page.title()).toContain("siem is paused");
    await server.close();
    await page.locator("body[data-link=lost]").waitFor();
    expect(await text(page, "#headline")).toBe("Connection lost.");
    expect(await text(page, "#subline")).toMatch(/^The figures below are from \d\d:\d\d:\d\d\.$/);
    expect(await page.title()).toBe("⚠ Connection lost · Tidemark");
    const filter = "getComputedStyle(document.querySelector('#sinks-panel').parentElement).filter";
    expect(await page.evaluate(filter)).toBe("grayscale(1)");
    expect(await violationsOf(page)).toEqual([]);
    const again = await serveScene(state, { config: { config: { port: server.port } } });
    cleanups.push(again.close);
    await page.locator("#link[data-state=live]").waitFor();
    await expect.poll(() => text(page, "#headline")).toContain("siem is paused");
    expect(await page.evaluate(filter)).toBe("none");
  });

  it("R40 says that the process has stopped when it stops", async () => {
    const stop = new AbortController();
    const server = await serveScene(state, { config: { signal: stop.signal } });
    const { page } = await open(server);
    await page.locator("#link[data-state=live]").waitFor();
    await page.route("**/api/events", (route) => route.abort());
    stop.abort();
    await page.locator("body[data-link=stopped]").waitFor();
    expect(await text(page, "#headline")).toBe("Tidemark has stopped.");
  });

  it("R40 the headline and a tile name the sink that is behind, and the events it refused", async () => {
    const deliveries = () =>
      ["lake", "siem"].map((name) => ({
        ...{ name, state: "running" as const, reason: null, remedy: null, sentEvents: 9 },
        ...{ sinceMs: state.clock.now() - HOUR_MS, lastWriteMs: state.clock.now() },
      }));
    const options = { ...state.options, sinkBehindMs: 30_000 };
    const server = await serveScene({ ...state, options }, { live: { alarms: () => [], deliveries } });
    const { page } = await open(server);
    const { sinks } = await api(server, "/api/sinks");
    const siem = sinks.find(({ name }: { name: string }) => name === "siem");
    await expect
      .poll(() => text(page, "#headline"))
      .toMatch(new RegExp(`^siem is .* behind \\(${siem.lagEvents} events\\)\\. siem refused 2 events\\.`));
    expect(await text(page, "#tile-sink .hint")).toBe(`siem, ${siem.lagEvents} events`);
    for (const tile of await page.locator(".tile").all())
      expect(await tile.getAttribute("title")).toMatch(/\w+ .*\./);
  });

  it("shows only organizations with problems when asked", async () => {
    const { page } = await open(await serveScene(state));
    await expect.poll(() => text(page, "#problems-label")).toBe("Only problems (2)");
    await page.check("#problems");
    await expect.poll(() => text(page, "#organizations-count")).toBe("2 of 3");
  });

  it("keeps the live chart readable while history is read a thousand times faster", async () => {
    const nowMs = state.clock.now();
    const rates = wavyRates(nowMs, ["lake"]);
    const live = { rates: () => ({ ...rates, received: rates.live.map((rate) => rate + 50_000) }) };
    const server = await serveScene(state, { live });
    const { page } = await open(server);
    await expect.poll(() => text(page, "#tile-rate .hint")).toBe("and 50K/s of history");
    const shown = await text(page, "#tile-rate .figure");
    expect(Number.parseFloat(shown)).toBeLessThan(200);
    const labels = await page.locator("#rate-legend li").allInnerTexts();
    expect(labels).toContain("History");
  });

  it.each(["wide", "phone"] as const)("has no accessibility violation that axe finds (%s)", async (size) => {
    const viewport = size === "wide" ? { width: 1280, height: 900 } : { width: 390, height: 844 };
    const { page } = await open(await serveScene(state), { viewport });
    await page.locator("#sinks > li").first().waitFor();
    await page.locator("#rows .row:not([hidden])").nth(2).waitFor();
    expect(await violationsOf(page)).toEqual([]);
  });

  it("fits a phone: nothing sticks out to the side", async () => {
    const { page } = await open(await serveScene(state), { viewport: { width: 360, height: 740 } });
    await page.locator("#sinks > li").first().waitFor();
    const root = "document.documentElement";
    expect(await page.evaluate(`${root}.scrollWidth - ${root}.clientWidth`)).toBe(0);
    // Problems come before charts.
    const topOf = async (selector: string) => (await page.locator(selector).boundingBox())!.y;
    expect(await topOf("#sinks-panel")).toBeLessThan(await topOf("#rate-chart"));
    expect(await topOf("#letters-panel")).toBeLessThan(await topOf("#calendar"));
    expect(await topOf("#alarms")).toBeLessThan(await topOf("#tiles"));
  });

  it.each(["light", "dark"] as const)("has texts that can be read in the %s", async (colorScheme) => {
    const { page } = await open(await serveScene(state), { colorScheme });
    await page.locator("#sinks > li").first().waitFor();
    const faint = await page.evaluate(readFileSync(new URL("faint-texts.js", import.meta.url), "utf8"));
    expect(faint).toEqual([]);
  });

  it("draws few of ten thousand organizations while it scrolls through them", async () => {
    const large = makeState();
    cleanups.push(large.close);
    await fillLarge(large, 10_000, 100);
    const calm = {
      alarms: () => [],
      deliveries: () =>
        ["lake", "siem"].map((name) => ({
          ...{ name, state: "running" as const, reason: null, remedy: null, sentEvents: 9 },
          ...{ sinceMs: large.clock.now() - HOUR_MS, lastWriteMs: large.clock.now() },
        })),
    };
    const server = await serveScene(large, { live: calm });
    const { page, problems } = await open(server);
    await expect.poll(() => text(page, "#organizations-count")).toBe("10,000");
    await expect.poll(() => text(page, "#headline")).toBe("Everything is arriving and being delivered.");
    expect(await text(page, "#tile-complete .figure")).toBe("100 %");
    const script = readFileSync(new URL("scroll-frames.js", import.meta.url), "utf8");
    const { frames, rows: drawn } = (await page.evaluate(script)) as { frames: number[]; rows: number };
    const worst = frames.at(-1)!;
    console.log(
      `page: median frame ${frames[60]!.toFixed(1)} ms, worst ${worst.toFixed(1)} ms at 10,000 organizations`,
    );
    // The time of a frame is the machine's; the number of rows in it is ours.
    expect(drawn).toBeGreaterThan(5);
    expect(drawn).toBeLessThan(40);
    await page.focus("#rows");
    await page.keyboard.press("End");
    const { rows } = await api(server, "/api/organizations?offset=9999&limit=1");
    await expect.poll(() => text(page, "#organization-9999 b")).toBe(rows[0].name);
    await page.fill("#search", "fjord 0999");
    await expect.poll(() => text(page, "#organizations-count")).toBe("1 of 10,000");
    expect(problems).toEqual([]);
  });
});
