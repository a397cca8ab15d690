import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { cosign, cosignedAtMs, parseCheckpoint, signCheckpoint } from "../../src/archive/log/checkpoint.ts";
import { encodeLeaf, parseLeaf } from "../../src/archive/log/leaf.ts";
import {
  COSIGNATURE,
  isSignedBy,
  newSignerText,
  parseNote,
  parseSigner,
  parseVerifier,
  signNote,
} from "../../src/archive/log/note.ts";
import { bundleOf, createTiler, ENTRY_BYTES_MAX, entriesOf, tilePath } from "../../src/archive/log/tiles.ts";
import {
  consistencyProof,
  createTree,
  EMPTY_ROOT,
  inclusionProof,
  leafHash,
  leavesOf,
  rootOf,
  verifyConsistency,
  verifyInclusion,
} from "../../src/archive/log/tree.ts";
import { skipUnless } from "../support/components.ts";
import { findFsck } from "../support/tessera.ts";

const fsck = await findFsck();
const vectors = JSON.parse(
  readFileSync(join(import.meta.dirname, "../fixtures/merkle-vectors.json"), "utf8"),
) as {
  readonly inclusion: Readonly<Record<string, InclusionVector>>;
  readonly consistency: Readonly<Record<string, ConsistencyVector>>;
};

/** Hashes are base64; a vector without `wantErr` is a valid proof. */
interface InclusionVector {
  readonly leafIdx: number;
  readonly treeSize: number;
  readonly root: string | null;
  readonly leafHash: string | null;
  readonly proof: readonly string[] | null;
  readonly wantErr: boolean;
}

interface ConsistencyVector {
  readonly size1: number;
  readonly size2: number;
  readonly root1: string | null;
  readonly root2: string | null;
  readonly proof: readonly string[] | null;
  readonly wantErr: boolean;
}

function leavesUpTo(size: number) {
  return leavesOf(
    Buffer.concat(Array.from({ length: size }, (_, index) => leafHash(Buffer.from(`leaf ${index}`)))),
  );
}

describe("RFC 6962 trees", () => {
  test("give the answer of every one of the 196 vectors of transparency-dev/merkle", () => {
    const bytes = (text: string | null) => Buffer.from(text ?? "", "base64");
    for (const [name, probe] of Object.entries(vectors.inclusion)) {
      const [leaf, proof, root] = [bytes(probe.leafHash), (probe.proof ?? []).map(bytes), bytes(probe.root)];
      const isValid = verifyInclusion(probe.leafIdx, probe.treeSize, leaf, proof, root);
      expect(isValid, `inclusion/${name}`).toBe(!probe.wantErr);
    }
    for (const [name, probe] of Object.entries(vectors.consistency)) {
      const [oldRoot, root, proof] = [bytes(probe.root1), bytes(probe.root2), (probe.proof ?? []).map(bytes)];
      const isValid = verifyConsistency(probe.size1, probe.size2, oldRoot, root, proof);
      expect(isValid, `consistency/${name}`).toBe(!probe.wantErr);
    }
    expect(Object.keys(vectors.inclusion)).toHaveLength(98);
    expect(Object.keys(vectors.consistency)).toHaveLength(98);
  });

  test("A16 the root of the empty tree is SHA-256 of nothing", () => {
    expect(createTree().root().toString("hex")).toBe(
      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    );
    expect(rootOf(leavesOf(Buffer.alloc(0))).equals(EMPTY_ROOT)).toBe(true);
  });

  test("prove every leaf of every size up to 70, and nothing with a changed byte, index or size", () => {
    for (let size = 1; size <= 70; size++) {
      const leaves = leavesUpTo(size);
      const root = rootOf(leaves);
      for (let index = 0; index < size; index++) {
        const proof = inclusionProof(leaves, index);
        const leaf = leaves.at(index);
        expect(verifyInclusion(index, size, leaf, proof, root)).toBe(true);
        expect(verifyInclusion(index, size, leaf, [...proof, leaf as Buffer], root)).toBe(false);
        if (size === 1) continue;
        expect(verifyInclusion((index + 1) % size, size, leaf, proof, root)).toBe(false);
        const changed = proof.map((hash) => Buffer.from(hash));
        changed[changed.length - 1]![0]! ^= 1;
        expect(verifyInclusion(index, size, leaf, changed, root)).toBe(false);
      }
    }
  });

  test("prove that every size up to 40 is the beginning of every later one", () => {
    const leaves = leavesUpTo(40);
    for (let size = 1; size <= 40; size++)
      for (let oldSize = 1; oldSize <= size; oldSize++) {
        const [oldRoot, root] = [rootOf(leaves, 0, oldSize), rootOf(leaves, 0, size)];
        const proof = consistencyProof(leaves, oldSize, size);
        expect(verifyConsistency(oldSize, size, oldRoot, root, proof), `${oldSize} to ${size}`).toBe(true);
        expect(verifyConsistency(oldSize, size, leafHash(oldRoot), root, proof)).toBe(false);
      }
  });
});

describe("signed notes", () => {
  const text = "This is an example message.\n";
  // The example of the C2SP signed-note specification.
  const example = `${text}\n— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n`;
  const key = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";

  test("verify the example of the specification", () => {
    expect(isSignedBy(parseNote(Buffer.from(example)), parseVerifier(key))).toBe(true);
    expect(parseVerifier(key).text).toBe(key);
  });

  test("reject a changed text, a changed signature, a damaged key; ignore unknown keys", () => {
    const verifier = parseVerifier(key);
    expect(() => isSignedBy(parseNote(Buffer.from(example.replace("an ex", "one ex"))), verifier)).toThrow(
      "does not verify",
    );
    expect(() => isSignedBy(parseNote(Buffer.from(example.replace("jG1Yu", "jG1Yv"))), verifier)).toThrow(
      "does not verify",
    );
    expect(() => parseVerifier(key.replace("530d", "530e"))).toThrow("damaged");
    expect(
      isSignedBy(
        parseNote(Buffer.from(signNote(text, [parseSigner(newSignerText("other.example"))]))),
        verifier,
      ),
    ).toBe(false);
    for (const bad of [
      "",
      "text\n",
      `${text}\n`,
      example.replace("— ", "- "),
      `${example}x`,
      example.replace("an ", "an\t"),
    ])
      expect(() => parseNote(Buffer.from(bad)), JSON.stringify(bad)).toThrow();
  });

  test("a new key signs, and its text gives the same key again", () => {
    const signer = parseSigner(newSignerText("example.com/archive"));
    const note = parseNote(Buffer.from(signNote(text, [signer])));
    expect(isSignedBy(note, parseVerifier(signer.verifier.text))).toBe(true);
  });

  test("A21 a cosignature carries its time, and is bound to it and to the checkpoint", () => {
    const signer = parseSigner(newSignerText("example.com/log"));
    const witness = parseSigner(newSignerText("witness.example/w", COSIGNATURE));
    const signed = signCheckpoint({ origin: "example.com/log", size: 0, root: EMPTY_ROOT }, [signer]);
    const line = cosign(parseCheckpoint(Buffer.from(signed)), witness, 1_700_000_000_500);
    const both = parseCheckpoint(Buffer.from(`${signed}${line}\n`));
    expect(cosignedAtMs(both.note, witness.verifier)).toBe(1_700_000_000_000);
    const [, text] = /(\S+)$/.exec(line)!;
    const bytes = Buffer.from(text!, "base64");
    bytes.writeBigUInt64BE(1_600_000_000n, 4);
    const earlier = line.replace(text!, bytes.toString("base64"));
    expect(() =>
      cosignedAtMs(parseCheckpoint(Buffer.from(`${signed}${earlier}\n`)).note, witness.verifier),
    ).toThrow("does not verify");
    const other = signCheckpoint({ origin: "example.com/log", size: 1, root: leafHash() }, [signer]);
    expect(() =>
      cosignedAtMs(parseCheckpoint(Buffer.from(`${other}${line}\n`)).note, witness.verifier),
    ).toThrow("does not verify");
  });
});

describe("log leaves", () => {
  const content = { kind: "key", key: "k", previous: null } as const;

  test("A16 a leaf names its level, its log and its place, and only its exact bytes are accepted", () => {
    const bytes = encodeLeaf(
      { origin: "example.com/log", index: 7, size: 9, timeMs: Date.UTC(2026, 10, 15) },
      content,
    );
    expect(bytes.toString()).toMatch(
      /^\{"type":"tidemark\/log-leaf\/v1","origin":"example.com\/log","index":7,/,
    );
    expect(parseLeaf(bytes, "example.com/log", 7)).toMatchObject(content);
    expect(() => parseLeaf(bytes, "example.com/log", 8)).toThrow("entry 7");
    expect(() => parseLeaf(bytes, "example.com/other", 7)).toThrow("entry 7");
    expect(() => parseLeaf(Buffer.from(`${bytes} `), "example.com/log", 7)).toThrow("fixed order");
    expect(() =>
      parseLeaf(Buffer.from(bytes.toString().replace('"kind"', '"more":1,"kind"')), "example.com/log", 7),
    ).toThrow();
  });
});

describe("tiles", () => {
  test("have the names of the specification", () => {
    expect(tilePath(0, 1_234_067, 256)).toBe("tile/0/x001/x234/067");
    expect(tilePath("entries", 5, 9)).toBe("tile/entries/005.p/9");
  });

  test("a bundle gives its entries back, and none when a byte is missing or too many", () => {
    const entries = [Buffer.from("a"), Buffer.alloc(0), Buffer.alloc(ENTRY_BYTES_MAX, 7)];
    expect(entriesOf(bundleOf(entries))).toEqual(entries);
    expect(entriesOf(bundleOf(entries).subarray(0, -1))).toBeUndefined();
    expect(entriesOf(Buffer.concat([bundleOf(entries), Buffer.from([0])]))).toBeUndefined();
    expect(() => bundleOf([Buffer.alloc(ENTRY_BYTES_MAX + 1)])).toThrow("the most");
  });

  test.skipIf(skipUnless("fsck", fsck, "set TIDEMARK_REQUIRE=fsck to build it with Go"))(
    "the fsck of Tessera accepts logs that grew in steps, and rejects one with a changed byte",
    () => {
      const signer = parseSigner(newSignerText("example.com/archive"));
      for (const sizes of [[1], [3, 255, 256, 257, 700], [70_000]]) {
        const folder = mkdtempSync(join(tmpdir(), "tidemark-fsck-"));
        try {
          writeLog(folder, sizes, signer);
          expect(check(folder, signer.verifier.text), `sizes ${sizes}`).toContain("Successfully fsck'd");
          if (sizes.at(-1)! > 1) continue;
          const tile = join(folder, tilePath(0, 0, 1));
          const bytes = readFileSync(tile);
          bytes[0]! ^= 1;
          writeFileSync(tile, bytes);
          expect(check(folder, signer.verifier.text)).toContain("fsck failed");
        } finally {
          rmSync(folder, { recursive: true });
        }
      }
    },
  );
});

function writeLog(folder: string, sizes: readonly number[], signer: ReturnType<typeof parseSigner>): void {
  const entry = (index: number) => Buffer.from(`leaf ${index}`);
  const all = leavesUpTo(sizes.at(-1)!);
  const tiler = createTiler(all, entry);
  for (const size of sizes) {
    for (const { path, bytes } of tiler.grow(size)) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), bytes);
    }
    writeFileSync(
      join(folder, "checkpoint"),
      signCheckpoint({ origin: signer.verifier.name, size, root: rootOf(all, 0, size) }, [signer]),
    );
  }
}

/** Its exit code is 0 even for a damaged log, and it may hang there: its words decide. */
function check(folder: string, key: string): string {
  const keyFile = join(folder, "key.txt");
  writeFileSync(keyFile, key);
  const args = ["--ui=false", "--storage_url", `file://${folder}/`, "--public_key", keyFile];
  return spawnSync(fsck!, args, { encoding: "utf8", timeout: 400_000 }).stderr;
}
