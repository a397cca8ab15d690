import { describe, expect, test } from "vitest";
import { RetryableError } from "../../src/core/errors.ts";
import type { Answer } from "../../src/core/http/requester.ts";
import { resultsOf } from "../../src/sinks/bulk/answer.ts";
import { jsonOf } from "../../src/sinks/over-http/status.ts";

const answerOf = (text: string, isWhole = true) =>
  ({ status: 200, text, isWhole }) as Partial<Answer> as Answer;
const items = (...statuses: readonly number[]) =>
  statuses.map((status) => `{"create":{"status":${status}}}`).join(",");

describe("the answer to a bulk request", () => {
  test.each([
    ["took first", `{"took":12,"errors":false,"items":[${items(201)}]}`, 12],
    ["errors first", `{"errors":false,"took":7,"items":[${items(201)}]}`, 7],
    ["no time", `{"errors":false,"items":[${items(201)}]}`, 0],
  ])("without errors is not parsed: %s", (_, text, tookMs) => {
    // The items are not valid JSON, so a parser would refuse the text.
    const broken = text.replace('"items":[', '"items":[!');
    expect(resultsOf(answerOf(broken), 1)).toEqual({ items: [], tookMs });
  });

  test("without errors is parsed where its members come in another order", () => {
    const text = `{"items":[${items(201)}],"errors":false,"took":9}`;
    const taken = { status: 201, type: "", reason: "" };
    expect(resultsOf(answerOf(text), 1)).toEqual({ items: [taken], tookMs: 9 });
  });

  test("that denies errors which its items have is judged by the items", () => {
    const { items: found } = resultsOf(answerOf(`{"took":1,"errors":false,"items":[${items(201, 400)}]}`), 2);
    expect(found.map(({ status }) => status)).toEqual([201, 400]);
  });

  test("with errors has every item's status and error", () => {
    const error = '{"create":{"status":400,"error":{"type":"mapper_parsing_exception","reason":"no date"}}}';
    const { items: found, tookMs } = resultsOf(
      answerOf(`{"took":5,"errors":true,"items":[${items(201)},${error}]}`),
      2,
    );
    expect(tookMs).toBe(5);
    expect(found).toEqual([
      { status: 201, type: "", reason: "" },
      { status: 400, type: "mapper_parsing_exception", reason: "no date" },
    ]);
  });

  test("errors that are named later in a string do not count as none", () => {
    const named = { type: "t", reason: '{"took":1,"errors":false}' };
    const error = JSON.stringify({ create: { status: 400, error: named } });
    const { items: found } = resultsOf(answerOf(`{"took":1,"errors":true,"items":[${error}]}`), 1);
    expect(found[0]).toMatchObject({ status: 400 });
  });

  test.each([
    ["cut amid its items", `{"took":1,"errors":false,"items":[{"create":{"status":201`, true],
    ["longer than what is kept of answers", `{"took":1,"errors":false,"items":[{"create":{}`, false],
    ["without errors and without items", `{"took":3,"errors":false}`, true],
    [
      "without errors, with fewer items than were sent",
      `{"took":3,"errors":false,"items":[${items(201)}]}`,
      true,
    ],
    ["with fewer items than were sent", `{"took":1,"errors":true,"items":[${items(201)}]}`, true],
    ["no JSON", "<html>busy</html>", true],
    ["empty", "", true],
  ])("that is %s is tried again", (_, text, isWhole) => {
    expect(() => resultsOf(answerOf(text, isWhole), 2)).toThrow(RetryableError);
  });
});

test("millions of empty objects are not parsed, and an answer about the largest request is", () => {
  const hostile = answerOf(`{"took":1,"errors":true,"items":[${"{},".repeat(300_000)}{}]}`);
  expect(jsonOf(hostile)).toBeUndefined();
  expect(() => resultsOf(hostile, 2)).toThrow(RetryableError);
  const item =
    '{"create":{"status":400,"error":{"type":"mapper_parsing_exception","reason":"Preview: {[{}]} {{"}}}';
  const honest = answerOf(`{"took":1,"errors":true,"items":[${Array(5000).fill(item).join(",")}]}`);
  expect(resultsOf(honest, 5000).items).toHaveLength(5000);
});
