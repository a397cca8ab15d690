import { readFileSync } from "node:fs";

/** The version in package.json, which the build copies to dist/. */
export const VERSION = (
  JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as { version: string }
).version;
