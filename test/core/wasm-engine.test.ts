import { hash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { allocateAnew } from "../../src/core/buffer-pool.ts";
import { identityAt } from "../../src/core/identity.ts";
import { IDENTITY_BYTES, preparePage } from "../../src/core/prepare-page.ts";
import { eventBytes, ScanError, type ScannedPage, scanPage, scanWith } from "../../src/core/scanner.ts";
import { createEngine } from "../../src/core/wasm-engine.ts";
import { runs } from "../support/runs.ts";

const ORG = "5f0c5f0c5f0c5f0c5f0c5f0c";
const OTHER = "6a1b6a1b6a1b6a1b6a1b6a1b";

/** Blanks, escapes, nesting, line breaks, and a steering key that is spelled with an escape. */
const SAMPLE = Buffer.from(
  `\n[ {"id":"a1","organization":"${ORG}","service":"sso","timestamp":"2026-03-14T14:00:00.123456Z"} ,\n` +
    `{"\\u0069d":"b\\"2","correlation":{"type":"import","id":"c-7"},"changes":[{"to":[1.5e-3,-0,true,null,{}]},[]]},` +
    `{},{"event_type":"日本 é","timestamp":"2026-03-14T15:09:26+01:00","organization":null , "n":false}\r\n]\t`,
);

describe("a text that is scanned in stretches", () => {
  test("gives the same events wherever the stretches end, also when an event is longer than they are", () => {
    const whole = scanPage(SAMPLE);
    expect(whole.count).toBe(4);
    for (let bytes = 1; bytes <= SAMPLE.length + 1; bytes++)
      expect(comparable(scanIn(bytes, SAMPLE)), `stretches of ${bytes} bytes`).toEqual(comparable(whole));
  });

  test("needs no more memory than the text has, whatever the size of an event", () => {
    const engine = createEngine();
    const page = Buffer.from(`[{"id":"1","x":"${"a".repeat(9_000_000)}"}]`);
    expect(scanWith(engine, page, 1000, allocateAnew).count).toBe(1);
    expect(engine.textBytesMax).toBeLessThanOrEqual(page.length);
  });

  test("gives the same for any page", () => {
    const object = fc.dictionary(fc.oneof(fc.string(), fc.constantFrom("id", "service")), fc.jsonValue());
    fc.assert(
      fc.property(fc.array(object, { maxLength: 8 }), fc.integer({ min: 1, max: 200 }), (events, bytes) => {
        const page = Buffer.from(JSON.stringify(events));
        expect(comparable(scanIn(bytes, page))).toEqual(comparable(scanPage(page)));
      }),
      { numRuns: runs(120) },
    );
  });

  test("is refused with the same words wherever it is cut off, and wherever a byte is wrong", () => {
    for (let end = 0; end < SAMPLE.lastIndexOf("]"); end++) sameRefusal(SAMPLE.subarray(0, end));
    for (let at = 0; at < SAMPLE.length; at += 3) {
      const broken = Buffer.from(SAMPLE);
      broken[at] = 0;
      sameRefusal(broken);
    }
  });

  test("holds more events than fit into one call", () => {
    const page = Buffer.from(`[${Array.from({ length: 3000 }, (_, id) => `{"id":${id}}`).join(",")}]`);
    const scanned = scanPage(page);
    expect(scanned.count).toBe(3000);
    for (const index of [0, 511, 512, 513, 1024, 2999])
      expect(eventBytes(scanned, index).toString()).toBe(`{"id":${index}}`);
  });
});

describe("what is made of events", () => {
  test("identities are those of SHA-256 over the fields, for any text, length and order of owners", () => {
    const text = fc.oneof(
      fc.string({ maxLength: 12 }),
      fc.string({ unit: "grapheme", maxLength: 40 }),
      fc.string({ minLength: 60, maxLength: 400 }),
    );
    const event = fc.record(
      {
        id: fc.oneof(text, fc.integer(), fc.constant(null)),
        organization: fc.constantFrom(ORG, OTHER, OTHER.toUpperCase()),
        service: text,
        event_type: text,
        timestamp: fc.oneof(text, fc.constant("2026-03-14T14:00:00.123Z")),
        more: fc.jsonValue(),
      },
      { requiredKeys: ["organization"] },
    );
    fc.assert(
      fc.property(fc.array(event, { maxLength: 13 }), (events) => {
        const page = prepared(events);
        for (const [index, each] of events.entries()) {
          const owner = each.organization.toLowerCase();
          const key = [each.service, each.event_type, each.timestamp, each.id].map((field) => field ?? "");
          const bytes = JSON.stringify(each);
          const wanted =
            each.id === undefined || each.id === null ? `${owner}\0${bytes}` : [owner, ...key, ""].join("\0");
          expect(identityOf(page, index)).toBe(hash("sha256", wanted, "hex").slice(0, 2 * IDENTITY_BYTES));
          expect(identityAt(page.scanned, index, owner, null)).toBe(identityOf(page, index));
        }
      }),
      { numRuns: runs(200) },
    );
  });

  test.each([205, 208, 209, 210, 211, 300])(
    "so they are for a full stretch with ids of %i bytes",
    (length) => {
      const events = Array.from({ length: 512 }, (_, at) => ({
        id: String(at).padEnd(length, "x"),
        organization: ORG,
        service: "s".repeat(8),
      }));
      const page = prepared(events);
      for (const [index, { id }] of events.entries()) {
        const wanted = hash("sha256", `${ORG}\0ssssssss\0\0\0${id}\0`, "hex").slice(0, 2 * IDENTITY_BYTES);
        expect(identityOf(page, index), `${index}`).toBe(wanted);
      }
    },
  );

  test("an owner with a long name has identities too", () => {
    const organization = "o".repeat(300);
    const page = preparePage(Buffer.from(JSON.stringify([{ id: "1", organization }])), {
      organizations: [organization],
      provider: null,
    });
    const wanted = hash("sha256", `${organization}\0\0\0\x001\0`, "hex").slice(0, 2 * IDENTITY_BYTES);
    expect(identityOf(page, 0)).toBe(wanted);
  });

  test("digests are the low half of XXH64, for every length", () => {
    const events = Array.from({ length: 200 }, (_, length) => ({
      organization: ORG,
      x: "é~".repeat(length),
    }));
    const page = prepared([...events, { organization: ORG, x: "y".repeat(600_000) }]);
    for (let index = 0; index < page.scanned.count; index++)
      expect(page.digests[index]).toBe(Number(xxh64(eventBytes(page.scanned, index)) & 0xffffffffn));
  });

  test("the reference that digests are held against gives the published values", () => {
    expect(xxh64(Buffer.from("")).toString(16)).toBe("ef46db3751d8e999");
    expect(xxh64(Buffer.from("abc")).toString(16)).toBe("44bc2cf5ad770999");
    expect(xxh64(Buffer.from("Nobody inspects the spammish repetition")).toString(16)).toBe(
      "fbcea83c8a378bf1",
    );
  });
});

function scanIn(bytes: number, page: Buffer): ScannedPage {
  return scanWith(createEngine(bytes), page, 1000, allocateAnew);
}

function comparable({ count, columns, timesMs, hasLineBreaks }: ScannedPage) {
  return { count, hasLineBreaks, columns: Array.from(columns), timesMs: Array.from(timesMs) };
}

function sameRefusal(page: Buffer): void {
  const [whole, ...others] = [1_000_000, 1, 7, 64].map((bytes) => {
    try {
      scanIn(bytes, page);
      return "taken";
    } catch (error) {
      expect(error).toBeInstanceOf(ScanError);
      return (error as Error).message;
    }
  });
  for (const other of others) expect(other).toBe(whole);
}

function prepared(events: readonly object[]) {
  const bytes = Buffer.from(`[${events.map((event) => JSON.stringify(event)).join(",")}]`);
  return preparePage(bytes, { organizations: [ORG, OTHER], provider: null });
}

function identityOf({ identities }: { identities: Buffer }, index: number): string {
  return identities.toString("hex", index * IDENTITY_BYTES, (index + 1) * IDENTITY_BYTES);
}

/** By its definition, in whole numbers of any size. */
function xxh64(bytes: Buffer): bigint {
  const [p1, p2, p3, p4, p5] = [
    11400714785074694791n,
    14029467366897019727n,
    1609587929392839161n,
    9650029242287828579n,
    2870177450012600261n,
  ] as const;
  const cut = (value: bigint) => BigInt.asUintN(64, value);
  const rotate = (value: bigint, by: bigint) => cut((value << by) | (cut(value) >> (64n - by)));
  const round = (sum: bigint, word: bigint) => cut(rotate(cut(sum + word * p2), 31n) * p1);
  let at = 0;
  let sum: bigint = p5;
  if (bytes.length >= 32) {
    const lanes = [cut(p1 + p2), p2, 0n, cut(-p1)];
    for (; at + 32 <= bytes.length; at += 32)
      for (const lane of [0, 1, 2, 3])
        lanes[lane] = round(lanes[lane]!, bytes.readBigUInt64LE(at + 8 * lane));
    sum = cut([1n, 7n, 12n, 18n].reduce((total, by, lane) => total + rotate(lanes[lane]!, by), 0n));
    for (const lane of lanes) sum = cut((sum ^ round(0n, lane)) * p1 + p4);
  }
  sum = cut(sum + BigInt(bytes.length));
  for (; at + 8 <= bytes.length; at += 8)
    sum = cut(rotate(sum ^ round(0n, bytes.readBigUInt64LE(at)), 27n) * p1 + p4);
  if (at + 4 <= bytes.length) {
    sum = cut(rotate(sum ^ cut(BigInt(bytes.readUInt32LE(at)) * p1), 23n) * p2 + p3);
    at += 4;
  }
  for (; at < bytes.length; at++) sum = cut(rotate(sum ^ cut(BigInt(bytes[at]!) * p5), 11n) * p1);
  sum = cut((sum ^ (sum >> 33n)) * p2);
  sum = cut((sum ^ (sum >> 29n)) * p3);
  return sum ^ (sum >> 32n);
}
