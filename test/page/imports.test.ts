import { readFileSync } from "node:fs";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { secretOf } from "../../src/core/secret.ts";
import { createImports } from "../../src/imports/create-imports.ts";
import { createView } from "../../src/journal/view/view.ts";
import { definitionOf, eventOf, forever, heardLog, sourceOf, worker } from "../imports/support.ts";
import { serve, type TestServer } from "../server/start.ts";
import { liveOf, makeState, type TestState } from "../server/state.ts";
import { launchChromium, openPage, skipBrowser, violationsOf } from "../support/chromium.ts";

const TOKEN = "write-token-0123456789";

describe.skipIf(skipBrowser())("imports on the page", () => {
  let browser: Browser;
  let state: TestState;
  let server: TestServer;
  const source = sourceOf(
    [{ kind: "started", serviceJob: "j1" }],
    undefined,
    Array.from({ length: 40 }, (_, at) => worker(`user.${at}`, at === 39 ? { lastname: undefined } : {})),
  );

  beforeAll(async () => {
    browser = await launchChromium();
    state = makeState();
    const { db, clock } = state;
    const definition = definitionOf({ application: undefined, workday: "wd1", schedule: "*/5 * * * *" });
    const imports = createImports({
      ...{ db, definitions: [definition], source: () => source, accounts: ["acme"], clock, log: heardLog() },
    });
    await imports.step(forever);
    db.prepare("UPDATE import_schedules SET considered_ms = considered_ms - 3600000").run();
    const again = createImports({
      ...{ db, definitions: [definition], source: () => source, accounts: ["acme"], clock, log: heardLog() },
    });
    await again.step(forever);
    const event = (at: number, more: object) =>
      eventOf({
        id: `e${at}`,
        timestamp: new Date(clock.now()).toISOString(),
        event_type: "user_create",
        correlation: { id: "j1", type: "user_import" },
        resource: { type: "user", id: `id${at}`, username: `user.${at}` },
        changes: [{ field: "state", to: "STAGED" }],
        ...more,
      });
    await again.apply([
      ...Array.from({ length: 22 }, (_, at) => event(at, {})),
      ...Array.from({ length: 12 }, (_, at) => event(22 + at, { event_type: "user_update", changes: [] })),
      event(34, { success: false, error_message: "email already in use" }),
    ]);
    server = await serve(createView(db, liveOf(clock), state.options), {
      routes: again.routes,
      config: { token: secretOf(TOKEN) },
    });
  });
  afterAll(async () => {
    await server?.close();
    await browser?.close();
    state?.close();
  });

  it("shows the account of a job, its users with reasons, the last and next run, and activates the staged", async () => {
    const { page, problems } = await openPage(browser, server.url);
    await page.locator("#token-input").fill(TOKEN);
    await page.locator("#token-input").press("Enter");
    await page.locator("#jobs > li").waitFor();
    expect(await page.locator("#jobs > li").innerText()).toContain(
      "40 offered: 22 created, 12 updated, 1 failed, 1 skipped, 4 waiting",
    );
    const schedule = await page.locator("#schedules > li").innerText();
    expect(schedule).toContain("last run started");
    expect(schedule).toMatch(/next .* UTC/);
    await page.locator("#jobs button").click();
    await page.locator("#job-users tbody tr").first().waitFor();
    expect(await page.locator("#job-users tbody tr").count()).toBe(40);
    await page.locator("#job-outcome").selectOption("failed");
    await expect.poll(() => page.locator("#job-users tbody tr").count()).toBe(1);
    expect(await page.locator("#job-users tbody").innerText()).toContain("email already in use");
    await page.locator("#job-outcome").selectOption("skipped");
    await expect.poll(() => page.locator("#job-users tbody").innerText()).toContain("no last name");
    if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/job.png` });
    expect(await violationsOf(page, "detail-dialog")).toEqual([]);

    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: "Download CSV" }).click();
    const file = await (await download).path();
    expect(readFileSync(file, "utf8").split("\r\n")).toHaveLength(42);

    page.once("dialog", (dialog) => dialog.accept());
    await page.getByRole("button", { name: "Activate 22 users" }).click();
    await expect.poll(() => source.activated.length).toBe(22);
    await page.locator("#job-activate").waitFor({ state: "hidden" });
    await page.locator("#detail-close").click();
    if (process.env.SHOTS) {
      await page.locator("#jobs-panel").scrollIntoViewIfNeeded();
      await page.screenshot({ path: `${process.env.SHOTS}/panel.png`, fullPage: true });
    }
    expect(problems).toEqual([]);
  });

  it("shows scheduled runs that were started, missed, left out and refused, each with its reason", async () => {
    const runs = makeState();
    const { db, clock } = runs;
    const scripted = sourceOf([
      { kind: "started", serviceJob: "j1" },
      { kind: "refused", about: "request", reason: "403 Forbidden: not an administrator" },
    ]);
    const named = (name: string, changes: object) =>
      definitionOf({ name, application: name, schedule: "*/5 * * * *", ...changes });
    const definitions = [
      named("started", {}),
      named("refused", {}),
      named("missed", { schedule: "0 2 * * *" }),
      named("overlapped", { application: "started" }),
    ];
    const open = () =>
      createImports({
        ...{ db, definitions, source: () => scripted, accounts: ["acme"], clock, log: heardLog() },
      });
    await open().step(forever);
    db.prepare("UPDATE import_schedules SET considered_ms = considered_ms - 43200000").run();
    const imports = open();
    await imports.step(forever);
    const shown = await serve(createView(db, liveOf(clock), runs.options), { routes: imports.routes });
    try {
      const { page, problems } = await openPage(browser, shown.url);
      const words = async (name: string) => {
        const entry = page.locator("#schedules > li", { hasText: name });
        await entry.first().waitFor();
        return (await entry.first().innerText()).replaceAll("\n", " ");
      };
      expect(await words("started")).toMatch(/last run started .*next 2026-03-14 10:05/);
      expect(await words("refused")).toMatch(/last run refused .*403 Forbidden: not an administrator/);
      expect(await words("missed")).toMatch(/last run missed .*last 2026-03-14 02:00: not started in time/);
      expect(await words("overlapped")).toMatch(/last run left out .*Job 1 of the same import has not ended/);
      if (process.env.SHOTS)
        await page.locator("#jobs-panel").screenshot({ path: `${process.env.SHOTS}/runs.png` });
      expect(problems).toEqual([]);
    } finally {
      await shown.close();
      runs.close();
    }
  });
});
