import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { readAll } from "../../simulator/test/support.ts";
import { type InsightsWorld, openInsightsWorld } from "../search/insights-world.ts";
import { DUCKDB_REMEDY, duckdb } from "../search/support.ts";
import { launchChromium, openPage, skipBrowser, violationsOf } from "../support/chromium.ts";
import { skipUnless } from "../support/components.ts";

/** Pages wait for the search engine, which is slow on a busy machine. */
const poll = <T>(look: () => T) => expect.poll(look);
const skips = skipBrowser() || skipUnless("duckdb", duckdb, DUCKDB_REMEDY);

describe.skipIf(skips)("the search page", () => {
  let browser: Browser;
  let world: InsightsWorld;
  let secret: string;
  const cleanups: (() => unknown)[] = [];
  beforeAll(async () => {
    world = await openInsightsWorld(1500);
    browser = await launchChromium();
    secret = world.tokens.create({
      name: "responder",
      organizations: null,
      rights: ["search"],
      expiresMs: null,
    }).secret;
  });
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  });
  afterAll(async () => {
    await browser?.close();
    await world?.close();
  });

  /** Opens the page and gives the token when it asks. */
  async function open(query = "", viewport = { width: 1280, height: 900 }) {
    const opened = await openPage(browser, `${world.server.url}`, { viewport });
    cleanups.push(() => opened.page.context().close());
    await opened.page.evaluate(`sessionStorage.setItem("tidemark.search-token", ${JSON.stringify(secret)})`);
    await opened.page.goto(`${world.server.url}search.html${query}`);
    // The status page, opened first for its storage, has no view in this scene.
    opened.problems.length = 0;
    await opened.page.locator("#found > *").first().waitFor();
    return opened;
  }
  const summary = (page: Page) => page.locator("#summary").innerText();

  it("has no console error at first load, with the token typed on the keyboard", async () => {
    const page = await browser.newPage();
    cleanups.push(() => page.close());
    const errors: string[] = [];
    page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
    page.on("pageerror", ({ message }) => errors.push(message));
    await page.goto(`${world.server.url}search.html`);
    await page.locator("#token-dialog[open]").waitFor();
    await page.keyboard.type("tmk_wrong");
    await page.keyboard.press("Enter");
    await poll(() => page.locator("#token-reason").innerText()).toContain("Try another token");
    await page.keyboard.type(secret);
    await page.keyboard.press("Enter");
    await page.locator("#found tbody tr").first().waitFor();
    await page.reload();
    await page.locator("#found tbody tr").first().waitFor();
    expect(errors).toEqual([]);
  });

  it("asks for a token, refuses one without the right, and shows nothing before", async () => {
    const { page } = await openPage(browser, `${world.server.url}search.html`);
    cleanups.push(() => page.context().close());
    await page.locator("#token-dialog[open]").waitFor();
    expect(await page.locator("#found tr").count()).toBe(0);
    const other = world.tokens.create({
      name: "api",
      organizations: null,
      rights: ["insights"],
      expiresMs: null,
    });
    await page.fill("#token-input", other.secret);
    await page.click("#token-form button[type=submit]");
    await poll(() => page.locator("#token-reason").innerText()).toContain("no right to search");
    await page.fill("#token-input", secret);
    await page.click("#token-form button[type=submit]");
    await page.locator("#found tbody tr").first().waitFor();
    expect(await page.locator("#found tbody tr").count()).toBe(100);
  });

  it("filters, shows counts over time, and opens one event with raw, OCSF, deliveries and proof", async () => {
    const all = await readAll(world.archived, { limit: 10_000 });
    const { page, problems } = await open();
    await page.fill("input[name=service]", "sso");
    await page.click("#filters button[type=submit]");
    const count = all.filter(({ service }) => service === "sso").length;
    await poll(() => summary(page)).toBe(
      `${count.toLocaleString("en")} events (from the index), the newest first.`,
    );
    expect(new URL(page.url()).search).toBe("?service=sso");
    expect(await page.locator("#histogram button").count()).toBeGreaterThan(5);
    await page.locator("#found tbody button").first().click();
    await page.locator("#event-dialog[open]").waitFor();
    const raw = await page.locator("#event-body pre").first().innerText();
    const event = JSON.parse(raw);
    expect(all.map(({ id }) => id)).toContain(event.id);
    expect(JSON.parse(await page.locator("#event-body pre").nth(1).innerText())).toHaveProperty("class_uid");
    expect(await page.locator("#event-body").innerText()).toMatch(/Delivered\n[\s\S]*Proof\n/);
    expect(problems).toEqual([]);
  });

  it("is shared by its address: filters, time, the open event, and the story", async () => {
    const all = await readAll(world.archived, { limit: 10_000 });
    const { event_type, timestamp } = all[200]!;
    const from = Date.parse(timestamp) - 1;
    const { page } = await open(`?type=${event_type}&from=${from}&to=${from + 2000}`);
    expect(await page.inputValue("input[name=type]")).toBe(event_type);
    await page.locator("#found tbody button").first().click();
    await page.locator("#event-dialog[open]").waitFor();
    const shared = new URL(page.url()).search;
    expect(shared).toContain("event=");
    const other = await open(shared);
    await other.page.locator("#event-dialog[open]").waitFor();
    expect(await other.page.locator("#event-title").innerText()).toContain(event_type!);
    await other.page.keyboard.press("Escape");
    await poll(() => new URL(other.page.url()).search).not.toContain("event=");
    const { email } = all.find(({ initiated_by }) => initiated_by?.email)!.initiated_by;
    const story = await open(`?name=${encodeURIComponent(email)}`);
    expect(await story.page.locator(".session h3").first().innerText()).toMatch(/^Session 1: /);
    expect(await summary(story.page)).toMatch(new RegExp(`^${email}: \\d+ events in \\d+ sessions?`));
  });

  it("works with the keyboard alone: every filter, the rows, the event and back", async () => {
    const { page } = await open();
    const focused = () =>
      page.evaluate("document.activeElement.name || document.activeElement.closest('tbody')?.tagName || ''");
    const tabTo = async (wanted: string) => {
      for (let presses = 0; presses < 300 && (await focused()) !== wanted; presses++)
        await page.keyboard.press("Tab");
      expect(await focused()).toBe(wanted);
    };
    for (const name of ["user", "ip", "type", "service"]) await tabTo(name);
    await page.keyboard.type("ldap");
    await page.keyboard.press("Enter");
    await poll(() => new URL(page.url()).search).toBe("?service=ldap");
    await poll(() => summary(page)).toMatch(/events \(from the index\)/);
    for (const name of ["organization", "outcome", "application", "device", "correlation", "text"])
      await tabTo(name);
    await tabTo("TBODY");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    const row = await page.evaluate("document.activeElement.closest('tr').dataset.identity");
    await page.keyboard.press("Enter");
    await page.locator("#event-dialog[open]").waitFor();
    expect(new URL(page.url()).searchParams.get("event")).toBe(row);
    expect(await page.evaluate("document.activeElement.closest('dialog')?.id")).toBe("event-dialog");
    await page.keyboard.press("Escape");
    await poll(() => page.locator("#event-dialog[open]").count()).toBe(0);
    // The focus is where it was, so the next row is one key away.
    expect(await page.evaluate("document.activeElement.closest('tr').dataset.identity")).toBe(row);
  });

  it("works on a phone, by touch", async () => {
    const phone = { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true };
    const context = await browser.newContext(phone);
    cleanups.push(() => context.close());
    const page = await context.newPage();
    await page.goto(`${world.server.url}search.html?service=sso`);
    await page.locator("#token-input").fill(secret);
    await page.locator("#token-form button[type=submit]").tap();
    await page.locator("#found tbody tr").first().waitFor();
    await page.locator("input[name=outcome], select[name=outcome]").selectOption("failure");
    await page.locator("#filters button[type=submit]").tap();
    await poll(() => new URL(page.url()).search).toBe("?service=sso&outcome=failure");
    await poll(() => page.locator("#found tbody tr").first().innerText()).toContain("failure");
    for (const button of await page.locator("#filters button, #found tbody tr:first-child button").all()) {
      const { width = 0, height = 0 } = (await button.boundingBox()) ?? {};
      expect({ name: await button.innerText(), isLarge: Math.min(width, height) >= 24 }).toMatchObject({
        isLarge: true,
      });
    }
    await page.locator("#found tbody button").first().tap();
    await page.locator("#event-dialog[open]").waitFor();
    const box = (await page.locator("#event-dialog").boundingBox())!;
    expect(box.x >= 0 && box.x + box.width <= 360).toBe(true);
    await page.locator("#event-close").tap();
    await poll(() => page.locator("#event-dialog[open]").count()).toBe(0);
    const root = "document.documentElement";
    expect(await page.evaluate(`${root}.scrollWidth - ${root}.clientWidth`)).toBe(0);
  });

  it("says what is wrong with a question, and shows nothing of markup in events", async () => {
    const { page } = await open();
    await page.fill("input[name=text]", "<img src=x onerror=alert(1)>");
    await page.click("#filters button[type=submit]");
    await poll(() => page.locator("#found").innerText()).toContain("Nothing was found");
    await page.goto(`${world.server.url}search.html?from=tomorrow`);
    await poll(() => page.locator("#summary").getAttribute("data-state")).toBe("bad");
  });

  it.each(["wide", "phone"] as const)(
    "has no accessibility violation that axe finds, and fits (%s)",
    async (size) => {
      const viewport = size === "wide" ? { width: 1280, height: 900 } : { width: 360, height: 740 };
      const { page } = await open("", viewport);
      await page.locator("#found tbody tr").nth(50).waitFor();
      expect(await violationsOf(page)).toEqual([]);
      const root = "document.documentElement";
      expect(await page.evaluate(`${root}.scrollWidth - ${root}.clientWidth`)).toBe(0);
      const folder = process.env.TIDEMARK_SCREENSHOTS;
      if (folder !== undefined) await page.screenshot({ path: `${folder}/search-${size}.png` });
      await page.locator("#found tbody button").first().click();
      await page.locator("#event-dialog[open]").waitFor();
      expect(await violationsOf(page)).toEqual([]);
      if (folder !== undefined) await page.screenshot({ path: `${folder}/search-event-${size}.png` });
    },
  );
});
