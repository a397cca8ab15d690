import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { programOnPath, skipUnless } from "./components.ts";

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

const chromiumPath = programOnPath("chromium") ?? programOnPath("chromium-browser");

/** The argument for `describe.skipIf`. */
export const skipBrowser = (): boolean =>
  skipUnless("chromium", chromiumPath, "install the Debian package chromium");

export function launchChromium(): Promise<Browser> {
  return chromium.launch({ executablePath: chromiumPath!, args: FLAGS, headless: true });
}

/** A page in a fresh profile; anything that goes wrong in it, and any request that leaves the server, is noted. */
export async function openPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<{ page: Page; problems: string[] }> {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const problems: string[] = [];
  page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
  page.on("console", (message) => {
    // A refusal that the page answers by asking for a token shows here too.
    if (message.type() === "error" && !/status of 40[134]/.test(message.text()))
      problems.push(message.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(url)) problems.push(`outside: ${request.url()}`);
  });
  await page.goto(url);
  return { page, problems };
}

/** What axe finds wrong in the page, or in the part with this id. */
export async function violationsOf(page: Page, id?: string): Promise<unknown> {
  await page.evaluate(readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8"));
  const part = id === undefined ? "document" : `document.getElementById(${JSON.stringify(id)})`;
  const listed =
    "found.violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ target }) => target).join(' '))";
  return page.evaluate(`axe.run(${part}).then((found) => ${listed})`);
}
