import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { openArchive } from "../../src/archive/archive.ts";
import { createDeletions } from "../../src/archive/deletion/deletion.ts";
import { reportHtml } from "../../src/archive/evidence/report.ts";
import { newSignerText, parseSigner } from "../../src/archive/log/note.ts";
import { openDirectory } from "../../src/archive/store/directory.ts";
import { newWindow } from "../../src/core/window.ts";
import { openArchiveState } from "../../src/journal/archive/state.ts";
import { ask } from "../server/start.ts";
import {
  append,
  DAY_MS,
  fillSmall,
  makeState,
  NOW_MS,
  organizationId,
  type TestState,
} from "../server/state.ts";
import { launchChromium, openPage, skipBrowser } from "../support/chromium.ts";
import { serveScene } from "./scene.ts";

const never = new AbortController().signal;

describe.skipIf(skipBrowser())("the archive in the browser", () => {
  let browser: Browser;
  let state: TestState;
  const cleanups: (() => unknown)[] = [];
  beforeAll(async () => {
    browser = await launchChromium();
  });
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
    state.close();
  });
  afterAll(() => browser?.close());

  /** Two closed days, a hold and a verification. */
  async function archived() {
    state = makeState();
    const { db, journal, clock, file } = state;
    const place = join(dirname(file), "archive");
    mkdirSync(place);
    const store = await openDirectory(place);
    const archiveState = await openArchiveState(db, {
      name: "evidence",
      journal: journal.id,
      retentionMs: 90 * DAY_MS,
      stagingFolder: join(dirname(file), "staging"),
    });
    const signer = parseSigner(newSignerText("example.com/evidence"));
    const options = {
      origin: "example.com/evidence",
      signer,
      settleMs: 0,
      classOf: () => "default",
      policy: "{}",
      workFolder: join(dirname(file), "work"),
    };
    const archive = await openArchive(archiveState, store, clock, options, never);
    const organizations = [organizationId(1)];
    await append(state, organizations[0]!, 20, NOW_MS - 5 * DAY_MS);
    const stream = await journal.stream({
      account: "acme",
      provider: null,
      organizations,
      services: ["all"],
    });
    const midnightMs = Math.floor(NOW_MS / DAY_MS) * DAY_MS;
    const sealed = {
      state: "sealed",
      askedMs: NOW_MS - DAY_MS,
      sweeps: 3,
      apiCount: 20,
      heldCount: 20,
    } as const;
    await journal.changeWindows({
      add: [newWindow(stream, midnightMs - 6 * DAY_MS, midnightMs - 4 * DAY_MS, sealed)],
    });
    while ((await archive.closeStep(never)) === "again");
    const deletions = createDeletions({
      ...{ archive, store, clock, state: archiveState },
      config: { keep: "7y", classes: [] },
      workFolder: join(dirname(file), "deletions"),
    });
    await deletions.hold({ case: "Case 17", organizations: [], from: null, to: null }, never);
    await archiveState.setFact("verified_ms", String(NOW_MS - 3_600_000));
    await archiveState.setFact("verified", JSON.stringify({ isValid: true, findings: 0 }));
    return { store, signer, archiveState };
  }

  it("shows days closed, last checkpoint, last verification and holds, as the API has them", async () => {
    await archived();
    const server = await serveScene(state);
    cleanups.push(server.close);
    const { archives } = (await ask(server, "/api/archives")).json;
    expect(archives).toMatchObject([
      { name: "evidence", daysClosed: 2, newestDay: "2026-03-09", holds: 1, findings: 0, waitingEvents: 0 },
    ]);
    const { page, problems } = await openPage(browser, server.url, {});
    cleanups.push(() => page.context().close());
    await page.locator("#archives li").waitFor();
    const shown = await page.locator("#archives-panel").innerText();
    for (const words of ["2 days closed", "evidence", "valid", "2, up to 2026-03-09", "1 h ago", "entries"])
      expect(shown).toContain(words);
    expect(shown).toMatch(/Holds\s+1/);
    expect(problems).toEqual([]);
  });

  it("says so when the last verification found something, and shows no panel without an archive", async () => {
    const { archiveState } = await archived();
    await archiveState.setFact("verified", JSON.stringify({ isValid: false, findings: 2 }));
    const server = await serveScene(state);
    cleanups.push(server.close);
    const { page } = await openPage(browser, server.url, {});
    cleanups.push(() => page.context().close());
    await page.locator("#archives li").waitFor();
    expect(await page.locator("#archives .chip").innerText()).toBe("2 findings");
    state.close();
    state = makeState();
    await fillSmall(state);
    const other = await serveScene(state);
    cleanups.push(other.close);
    const { page: second } = await openPage(browser, other.url, {});
    cleanups.push(() => second.context().close());
    await second.locator("#sinks li").first().waitFor();
    expect(await second.locator("#archives-panel").isVisible()).toBe(false);
  });

  it("the report answers on one page, and prints on few", async () => {
    const { store, signer } = await archived();
    const { html, isValid } = await reportHtml(store, { key: signer.verifier, nowMs: NOW_MS });
    expect(isValid).toBe(true);
    const file = join(dirname(state.file), "report.html");
    writeFileSync(file, html);
    const context = await browser.newContext({ viewport: { width: 1000, height: 1400 } });
    cleanups.push(() => context.close());
    const page = await context.newPage();
    const problems: string[] = [];
    page.on("pageerror", (error) => problems.push(error.message));
    page.on("request", (request) => {
      if (!request.url().startsWith("file:")) problems.push(`outside: ${request.url()}`);
    });
    await page.goto(pathToFileURL(file).href);
    const text = await page.locator("body").innerText();
    for (const words of ["Valid", "2 of 2", "example.com/evidence", "2026-03", "hold, in force"])
      expect(text).toContain(words);
    // Nothing is cut off at the side, on the screen or on paper.
    const isCut = () =>
      page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth");
    expect(await isCut()).toBe(false);
    await page.emulateMedia({ media: "print" });
    await page.setViewportSize({ width: 700, height: 1000 });
    expect(await isCut()).toBe(false);
    const pdf = await page.pdf({ format: "A4" });
    expect(pdf.toString("latin1").match(/\/Type\s*\/Page[^s]/g)!.length).toBeLessThanOrEqual(4);
    if (process.env.TIDEMARK_SCREENSHOTS) {
      await page.screenshot({
        path: join(process.env.TIDEMARK_SCREENSHOTS, "report-print.png"),
        fullPage: true,
      });
      await page.emulateMedia({ media: "screen" });
      await page.setViewportSize({ width: 1000, height: 1400 });
      await page.screenshot({ path: join(process.env.TIDEMARK_SCREENSHOTS, "report.png"), fullPage: true });
    }
    expect(problems).toEqual([]);
  });
});
