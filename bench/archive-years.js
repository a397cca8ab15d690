// Makes an archive of many years as closing would write it, without a journal, and verifies it:
//   node bench/archive-years.js make FOLDER [DAYS] [ORGANIZATIONS] [EVENTS_A_DAY]        after `npm run emit`
//   node bench/archive-years.js verify FOLDER [DAYS]
// `verify` checks the first DAYS days and prints one JSON line: how long it took, and its memory after each tenth.
import { hash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { claimOf, organizationSecret } from "../dist/src/archive/close/build.js";
import { signCheckpoint } from "../dist/src/archive/log/checkpoint.js";
import { encodeLeaf } from "../dist/src/archive/log/leaf.js";
import { newSignerText, parseSigner, parseVerifier } from "../dist/src/archive/log/note.js";
import { createTiler } from "../dist/src/archive/log/tiles.js";
import { createTree, leafHash } from "../dist/src/archive/log/tree.js";
import { CODEC } from "../dist/src/archive/part/data-file.js";
import { keyFrame, seekTable } from "../dist/src/archive/part/frames.js";
import { createEventHasher, lineNonceOf, noncesOf } from "../dist/src/archive/part/hashing.js";
import { identitiesHash } from "../dist/src/archive/part/identity-list.js";
import { encodeManifest, entryOf } from "../dist/src/archive/part/manifest.js";
import { openDirectory } from "../dist/src/archive/store/directory.js";
import { verifyArchive } from "../dist/src/archive/verify/verify.js";
import { heldEvents } from "../dist/src/core/held-event.js";
import { createCompressor } from "../dist/src/core/zstd.js";

const [phase, folder, days = "1095", organizationCount = "3000", eventsADay = "10000"] =
  process.argv.slice(2);
const ORIGIN = "example.com/years";
const DAY_MS = 86_400_000;
const firstMs = Date.parse("2023-11-01");
const organizations = Array.from(
  { length: Number(organizationCount) },
  (_, at) => `5f0c${at.toString(16).padStart(20, "0")}`,
);
const words = Array.from({ length: 4000 }, (_, at) => `word${(at * 7919) % 1009}`).join(" ");

function write(path, bytes) {
  const target = join(folder, path);
  mkdirSync(dirname(target), { recursive: true });
  writeFileSync(target, bytes);
}

/** The events of an organization's day and their frame. They are the same every day: nonces and hashes are not. */
function rangeOf(organization, count, first) {
  const slices = Array.from({ length: count }, (_, one) => {
    const number = first + one;
    const start = (number * 7919) % 20_000;
    return Buffer.from(
      `{"organization":"${organization}","service":"directory","event_type":"user_login_attempt","timestamp":"${new Date(firstMs + one * 1000).toISOString()}","id":"${number.toString(16).padStart(24, "0")}","detail":"${words.slice(start, start + 800)}"}`,
    );
  });
  const raw = Buffer.concat(slices.flatMap((slice) => [slice, LINE_BREAK]));
  const identities = heldEvents(organization, slices)
    .map(({ identity }) => identity)
    .sort();
  return {
    organization,
    slices,
    frame: count === 0 ? Buffer.alloc(0) : compress(raw),
    rawBytes: raw.length,
    rawSha256: hash("sha256", raw, "hex"),
    idsSha256: identitiesHash(identities),
  };
}

const LINE_BREAK = Buffer.from("\n");
const compress = createCompressor({ compressionLevel: CODEC.level, checksumFlag: true });

/** One line and the bytes of its range, as closing writes them. */
function lineOf(plan, range, offset) {
  const secret = organizationSecret(plan, range.organization);
  const key = keyFrame({ kind: "secret", secret });
  const stored = Buffer.concat([key, range.frame]);
  const hasher = createEventHasher(noncesOf(secret));
  const tree = createTree();
  for (const [index, slice] of range.slices.entries()) tree.append(hasher.leaf(index, slice));
  const events = range.slices.length;
  const claim = {
    organization: range.organization,
    accounts: ["acme"],
    events,
    askedMs: Date.parse(plan.day) + 2 * DAY_MS,
    matches: true,
    compared: true,
    missing: [],
  };
  const facts = {
    events,
    held: events,
    offset,
    stored_bytes: stored.length,
    stored_sha256: hash("sha256", stored, "hex"),
    raw_bytes: range.rawBytes,
    raw_sha256: range.rawSha256,
    events_root: tree.root().toString("hex"),
    key_bytes: key.length,
    frames: events === 0 ? [] : [[range.frame.length, range.rawBytes, events]],
    breaks: [],
    ids_sha256: range.idsSha256,
    erased: [],
  };
  const line = { ...claimOf(plan, claim, events), ...facts, first: null, last: null, changed: 0 };
  return { entry: entryOf(line, lineNonceOf(secret)), stored, key: key.length };
}

function makeDay(at, ranges) {
  const day = new Date(firstMs + at * DAY_MS).toISOString().slice(0, 10);
  const plan = { kind: "day", day, part: "001", class: "default", seed: hash("sha256", day, "buffer") };
  const tree = createTree();
  const entries = [];
  const pieces = [];
  const frames = [];
  let [offset, events, rawBytes] = [0, 0, 0];
  for (const range of ranges) {
    const { entry, stored, key } = lineOf(plan, range, offset);
    entries.push(entry);
    tree.append(Buffer.from(entry.leaf, "hex"));
    pieces.push(stored);
    frames.push({ stored: key, raw: 0 });
    if (range.frame.length > 0) frames.push({ stored: range.frame.length, raw: range.rawBytes });
    offset += stored.length;
    events += range.slices.length;
    rawBytes += range.rawBytes;
  }
  const data = Buffer.concat([...pieces, seekTable(frames)]);
  const manifest = encodeManifest(entries);
  const [dataHash, manifestHash] = [hash("sha256", data, "hex"), hash("sha256", manifest, "hex")];
  const name = `${day.replaceAll("-", "/")}.001`;
  const files = {
    data: `events/${name}.${dataHash.slice(0, 8)}.jsonl.zst`,
    manifest: `manifests/${name}.${manifestHash.slice(0, 8)}.jsonl`,
  };
  write(files.data, data);
  write(files.manifest, manifest);
  return {
    kind: "day",
    day,
    part: "001",
    class: "default",
    data: files.data,
    data_bytes: data.length,
    data_sha256: dataHash,
    manifest: files.manifest,
    manifest_bytes: manifest.length,
    manifest_sha256: manifestHash,
    lines: entries.length,
    lines_root: tree.root().toString("hex"),
    events,
    raw_bytes: rawBytes,
    incomplete: 0,
  };
}

function make() {
  mkdirSync(folder, { recursive: true });
  const signer = parseSigner(newSignerText(ORIGIN));
  const entries = [];
  const hashes = [];
  const tree = createTree();
  const tiler = createTiler({ size: 0, at: (index) => hashes[index] }, (index) => entries[index]);
  const append = (bodies) => {
    const size = entries.length + bodies.length;
    for (const body of bodies) {
      const entry = encodeLeaf({ origin: ORIGIN, index: entries.length, size, timeMs: firstMs }, body);
      entries.push(entry);
      hashes.push(leafHash(entry));
      tree.append(hashes.at(-1));
    }
    for (const { path, bytes } of tiler.grow(size)) write(`log/${path}`, bytes);
    const checkpoint = signCheckpoint({ origin: ORIGIN, size, root: tree.root() }, [signer]);
    write(`log/checkpoint.${size}`, checkpoint);
    write("log/checkpoint", checkpoint);
  };
  const policy = "{}\n";
  append([
    { kind: "key", key: signer.verifier.text, previous: null },
    { kind: "policy", policy_sha256: hash("sha256", policy, "hex") },
  ]);
  const share = Number(eventsADay) / organizations.length;
  const ranges = organizations.map((organization, index) => {
    const [first, end] = [Math.floor(index * share), Math.floor((index + 1) * share)];
    return rangeOf(organization, end - first, first);
  });
  for (let at = 0; at < Number(days); at++) append([makeDay(at, ranges)]);
  write("log/leaves.jsonl", entries.map((entry) => `${entry}\n`).join(""));
  write("policy.json", policy);
  write("keys.txt", `${signer.verifier.text}\n`);
  writeFileSync(`${folder}.key`, `${signer.verifier.text}\n`);
}

async function verify() {
  const verifier = parseVerifier(readFileSync(`${folder}.key`, "utf8"));
  const rss = [];
  const started = performance.now();
  const cpu = process.cpuUsage();
  let parts = 0;
  const result = await verifyArchive(await openDirectory(folder), {
    key: verifier,
    nowMs: Date.now(),
    to: new Date(firstMs + (Number(days) - 1) * DAY_MS).toISOString().slice(0, 10),
    onPart() {
      if (++parts % Math.ceil(Number(days) / 10) === 0) rss.push(Math.round(process.memoryUsage().rss / 1e6));
    },
  });
  const { user, system } = process.cpuUsage(cpu);
  console.log(
    JSON.stringify({
      days: result.days,
      events: result.events,
      findings: result.findings.length,
      seconds: Math.round((performance.now() - started) / 1000),
      cpuSeconds: Math.round((user + system) / 1e6),
      rssMb: rss,
      peakRssMb: Math.round(process.resourceUsage().maxRSS / 1000),
    }),
  );
}

if (phase === "make") make();
else await verify();
