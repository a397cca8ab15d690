import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { DecisionNeededError } from "../../src/core/errors.ts";
import { encodeMessage, messagesOf } from "../../src/search/service/frames.ts";
import { hostService } from "../../src/search/service/host.ts";
import type { SearchService } from "../../src/search/service/service.ts";

const never = new AbortController().signal;

/** A service whose answers are given by hand. */
function manualService() {
  const asked: { readonly owners: readonly string[]; answer(): void }[] = [];
  let most = 0;
  let running = 0;
  const service: SearchService = {
    answer: (request, signal) =>
      new Promise((resolve, reject) => {
        most = Math.max(most, ++running);
        const end = () => running--;
        signal.addEventListener("abort", () => {
          end();
          reject(signal.reason);
        });
        const owners = request.kind === "insights" ? request.owners : [];
        asked.push({
          owners,
          answer() {
            end();
            resolve({ status: 200, headers: {}, body: Buffer.from(owners.join()), events: 0 });
          },
        });
      }),
  };
  return { service, asked, most: () => most };
}

const question = (id: number) =>
  encodeMessage({ id, request: { kind: "insights", operation: "page", owners: [String(id)], body: {} } });

test("a few questions run at a time, the others wait for their turn, and a withdrawn one never runs", async () => {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const { service, asked, most } = manualService();
  const hosting = hostService(service, input, output, never);
  for (let id = 1; id <= 8; id++) for (const piece of question(id)) input.write(piece);
  for (const piece of encodeMessage({ id: 5, cancel: true })) input.write(piece);
  await expect.poll(() => asked.length).toBe(3);
  let answered = 0;
  const answering = setInterval(() => {
    while (answered < asked.length) asked[answered++]!.answer();
  });
  const messages: string[] = [];
  for await (const { head, body } of messagesOf(output)) {
    messages.push(head.error === undefined ? body.toString() : `${String(head.id)} withdrawn`);
    if (messages.length === 8) break;
  }
  clearInterval(answering);
  expect(messages.toSorted()).toEqual(["1", "2", "3", "4", "5 withdrawn", "6", "7", "8"]);
  expect(most()).toBe(3);
  expect(asked.map(({ owners }) => owners[0])).toEqual(["1", "2", "3", "4", "6", "7", "8"]);
  input.end();
  await hosting;
});

test("a decision that is needed reaches the person who asked, with its choices", async () => {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const service: SearchService = {
    answer: () => Promise.reject(new DecisionNeededError("The state is older.", ["restore", "begin anew"])),
  };
  const hosting = hostService(service, input, output, never);
  for (const piece of question(1)) input.write(piece);
  for await (const { head } of messagesOf(output)) {
    expect(head).toMatchObject({
      error: "The state is older. Choose one: restore; begin anew.",
      isUsage: true,
    });
    break;
  }
  input.end();
  await hosting;
});

test("returns when the work of every question has ended, also if no one reads the answers", async () => {
  const [input, output] = [new PassThrough(), new PassThrough({ highWaterMark: 1 })];
  let end = () => {};
  let isAborted = false;
  const service: SearchService = {
    answer: (_, signal) =>
      new Promise((resolve) => {
        signal.addEventListener("abort", () => {
          isAborted = true;
        });
        end = () => resolve({ status: 200, headers: {}, body: Buffer.alloc(100), events: 0 });
      }),
  };
  let hasReturned = false;
  const hosting = hostService(service, input, output, never).then(() => {
    hasReturned = true;
  });
  for (const piece of question(1)) input.write(piece);
  input.end();
  await expect.poll(() => isAborted).toBe(true);
  await new Promise((resolve) => setImmediate(resolve));
  expect(hasReturned).toBe(false);
  end();
  await hosting;
});
