#!/usr/bin/env node
// Writes the CycloneDX bill of materials of what is shipped, from the lockfile: node deploy/sbom.js [FILE]
// Unlike plain `npm sbom` it gives the same bytes for the same lockfile, so that two builds can be compared.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const args = ["sbom", "--sbom-format", "cyclonedx", "--omit", "dev", "--package-lock-only"];
const output = execFileSync("npm", args, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"], maxBuffer: 64e6 });

const bill = JSON.parse(output);
const byRef = (a, b) => (a["bom-ref"] ?? a.ref).localeCompare(b["bom-ref"] ?? b.ref, "en");
delete bill.serialNumber;
delete bill.metadata.timestamp;
delete bill.metadata.tools;
bill.metadata.component.type = "application";
bill.metadata.component.name = "tidemark";
bill.components.sort(byRef);
bill.dependencies.sort(byRef);
for (const { dependsOn } of bill.dependencies) dependsOn?.sort();
bill.serialNumber = `urn:uuid:${uuidOf(JSON.stringify(bill))}`;

const text = `${JSON.stringify(bill, null, 2)}\n`;
const [file] = process.argv.slice(2);
if (file === undefined) process.stdout.write(text);
else writeFileSync(file, text);

/** A version 8 UUID made from the content. */
function uuidOf(content) {
  const hex = createHash("sha256").update(content).digest("hex");
  return [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `a${hex.slice(17, 20)}`, hex.slice(20, 32)].join("-");
}
