import { existsSync, readFileSync } from "node:fs";

const FOLDER = new URL("../../../shared/data/", import.meta.url);

/** Reference data that is not part of the project; tests that need it are skipped where it is missing. */
export const referencePresent = existsSync(FOLDER);

export function reference<Content>(name: string): Content {
  return JSON.parse(readFileSync(new URL(name, FOLDER), "utf8")) as Content;
}
