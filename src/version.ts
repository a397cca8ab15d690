import { readFileSync } from "node:fs";

/** The package's own version; the path is the same seen from src and from dist. */
export const VERSION = (
  JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as { version: string }
).version;
