#!/usr/bin/env node
// Writes the CycloneDX bill of materials of what is shipped, from the lockfile: node deploy/sbom.js [FILE]
// (`npm sbom --omit dev` leaves out packages that a development dependency needs too, such as yaml.)
// The same lockfile gives the same bytes, so that two builds can be compared.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";

const lock = JSON.parse(readFileSync(new URL("../package-lock.json", import.meta.url), "utf8"));
const shipped = new Map(Object.entries(lock.packages).filter(([, entry]) => !entry.dev));
const root = shipped.get("");

const bill = {
  $schema: "http://cyclonedx.org/schema/bom-1.5.schema.json",
  bomFormat: "CycloneDX",
  specVersion: "1.5",
  version: 1,
  metadata: { component: { type: "application", ...partOf(root.name, root) } },
  components: [...new Map([...shipped].filter(([path]) => path !== "").map(([path, entry]) => {
    const part = partOf(nameOf(path), entry);
    return [part["bom-ref"], { type: "library", ...part }];
  })).values()].sort((a, b) => (a["bom-ref"] < b["bom-ref"] ? -1 : 1)),
  dependencies: [...edges()].map(([ref, to]) => ({ ref, dependsOn: [...to].sort() })).sort((a, b) => (a.ref < b.ref ? -1 : 1)),
};
bill.serialNumber = `urn:uuid:${uuidOf(JSON.stringify(bill))}`;

const text = `${JSON.stringify(bill, null, 2)}\n`;
const [file] = process.argv.slice(2);
if (file === undefined) process.stdout.write(text);
else writeFileSync(file, text);

function partOf(name, { version, license, integrity }) {
  const [algorithm, digest] = integrity?.split("-") ?? [];
  return {
    "bom-ref": `${name}@${version}`,
    name,
    version,
    purl: `pkg:npm/${name.replace("@", "%40")}@${version}`,
    ...(license && { licenses: [/^[\w.+-]+$/.test(license) ? { license: { id: license } } : { expression: license }] }),
    ...(algorithm === "sha512" && { hashes: [{ alg: "SHA-512", content: Buffer.from(digest, "base64").toString("hex") }] }),
  };
}

function nameOf(path) {
  return path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length);
}

/** What each package depends on, found as Node.js finds it: in the nearest node_modules upwards. */
function edges() {
  const found = new Map();
  for (const [path, entry] of shipped) {
    const ref = path === "" ? `${root.name}@${root.version}` : `${nameOf(path)}@${entry.version}`;
    const to = found.get(ref) ?? new Set();
    for (const name of Object.keys({ ...entry.dependencies, ...entry.optionalDependencies, ...entry.peerDependencies })) {
      const at = resolve(path, name);
      if (at !== undefined) to.add(`${name}@${shipped.get(at).version}`);
    }
    found.set(ref, to);
  }
  return found;
}

function resolve(path, name) {
  const folders = path.split("/node_modules/").map((_, at, parts) => `${parts.slice(0, at + 1).join("/node_modules/")}/`);
  for (const folder of ["", ...folders.filter((name) => name !== "/")].reverse()) {
    if (shipped.has(`${folder}node_modules/${name}`)) return `${folder}node_modules/${name}`;
  }
  return undefined;
}

/** A version 8 UUID made from the content. */
function uuidOf(content) {
  const hex = createHash("sha256").update(content).digest("hex");
  return [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `a${hex.slice(17, 20)}`, hex.slice(20, 32)].join("-");
}
