import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createIdentityList } from "../../src/archive/part/identity-list.ts";
import { runs } from "../support/runs.ts";

const identityOf = (number: number) => createHash("md5").update(String(number)).digest();

/** The definition, word for word. */
function expected(identities: readonly Buffer[]) {
  const sorted = [...new Set(identities.map((identity) => identity.toString("hex")))].toSorted();
  const text = sorted.map((identity) => `${identity}\n`).join("");
  return { held: sorted.length, sha256: createHash("sha256").update(text).digest("hex") };
}

test("A11 identities are counted and hashed once each, in order, few and many of them", async () => {
  const list = createIdentityList();
  for (const count of [0, 1, 1000, 2001, 4096, 20_000]) {
    list.clear();
    // Every third one a second time.
    const identities = Array.from({ length: count }, (_, at) => identityOf(at - (at % 3 === 0 ? 3 : 0)));
    for (const identity of identities) list.push(identity);
    expect(await list.summary(), String(count)).toEqual(expected(identities));
  }
});

test("A11 the order is that of all bytes", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.uint8Array({ minLength: 16, maxLength: 16, max: 2 })), async (given) => {
      const identities = given.map((bytes) => Buffer.from(bytes));
      const list = createIdentityList();
      for (const identity of identities) list.push(identity);
      expect(await list.summary()).toEqual(expected(identities));
    }),
    { numRuns: runs(100) },
  );
});
