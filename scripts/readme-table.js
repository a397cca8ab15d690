// Writes the README's table of promises, between its mark and the next empty line, from the definitions of the sinks.
import { readFileSync, writeFileSync } from "node:fs";
import { sinks } from "../dist/src/sinks/index.js";

const MARK = "<!-- guarantees -->\n";
const text = readFileSync("README.md", "utf8");
const start = text.indexOf(MARK) + MARK.length;
const end = text.indexOf("\n\n", start);
if (start < MARK.length || end < 0) throw new Error(`README.md lacks ${MARK.trim()}`);
const rows = sinks.map(({ type, promise }) => `| \`${type}\` | ${promise} |`);
const table = ["| sink | what is promised |", "|---|---|", ...rows].join("\n");
writeFileSync("README.md", text.slice(0, start) + table + text.slice(end));
