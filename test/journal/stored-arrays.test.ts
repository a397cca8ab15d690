import { afterEach, beforeEach, expect, test } from "vitest";
import { checksumOf } from "../../src/core/page-body.ts";
import { createCompressor, decompress } from "../../src/core/zstd.ts";
import { rollingOf, verifyState } from "../../src/journal/verify.ts";
import { eventTexts, pageOf, readTexts, textsOf } from "../support/pages.ts";
import { type JournalFixture, openFixture } from "./support.ts";

let fixture: JournalFixture;
beforeEach(() => {
  fixture = openFixture();
});
afterEach(() => fixture.close());

const oneLine = (from: number, count: number) =>
  eventTexts(from, count).map((text) => text.replaceAll("\n", ""));
const bodies = () => fixture.db.prepare("SELECT body FROM bodies ORDER BY page").pluck().all() as Buffer[];

/** Stores the first page as builds before the lines did, in a journal that has no other. */
function storeAsArray(texts: readonly string[]): Buffer {
  const body = createCompressor()(Buffer.from(`[${texts.join(",")}]`));
  const checksum = checksumOf(body);
  fixture.db.prepare("UPDATE bodies SET body = ? WHERE page = 1").run(body);
  fixture.db
    .prepare("UPDATE pages SET checksum = ?, rolling = ? WHERE number = 1")
    .run(checksum, rollingOf("", checksum));
  return body;
}

test("R20 a page that is stored as an array keeps its bytes, and positions in it go on", async () => {
  const [old, added] = [oneLine(0, 5), oneLine(5, 3)];
  await fixture.journal.append(pageOf(old));
  const body = storeAsArray(old);
  const reader = await fixture.reopen().reader("siem");
  const page = await reader.read(reader.position);
  await reader.commit(page!.after(1), undefined);

  await fixture.journal.append(pageOf(added));
  const journal = fixture.reopen();
  const again = await journal.reader("siem");
  expect(await again.holds(again.position)).toBe(true);
  expect(await readTexts(again)).toEqual([...old.slice(2), ...added]);
  expect(await textsOf(journal)).toEqual([...old, ...added]);
  expect(bodies()[0]).toEqual(body);
  expect(decompress(bodies()[1]!).toString()).toBe(added.map((text) => `${text}\n`).join(""));
  expect(verifyState(fixture.db).problems).toEqual([]);
});

test("events with line breaks keep their exact bytes, beside lines and after a restart", async () => {
  const [broken, plain] = [eventTexts(0, 4), oneLine(4, 4)];
  await fixture.journal.append(pageOf(broken));
  await fixture.journal.append(pageOf(plain));
  expect(await textsOf(fixture.journal)).toEqual([...broken, ...plain]);
  expect(await textsOf(fixture.reopen())).toEqual([...broken, ...plain]);
});

test("an event has the same identity from the page in memory and from the stored one", async () => {
  const texts = [...oneLine(0, 6), '{"organization":"5f0c5f0c5f0c5f0c5f0c5f0c","text":"no id"}'];
  await fixture.journal.append(pageOf(texts.slice(0, 3)));
  // Some of these are held already, so the page is stored in part.
  await fixture.journal.append(pageOf(texts));
  const identities = async () => {
    const reader = await fixture.journal.reader("look");
    const found: string[] = [];
    for (
      let at = reader.position, page = await reader.read(at);
      page !== null;
      page = await reader.read(at)
    ) {
      for (let index = 0; index < page.count; index++) found.push(page.event(index).identity);
      at = page.after(page.count - 1);
    }
    return found;
  };
  const before = await identities();
  fixture.reopen();
  expect(await identities()).toEqual(before);
  expect(new Set(before).size).toBe(7);
});
