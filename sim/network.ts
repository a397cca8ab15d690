import type { Dispatcher } from "undici";
import type { RequestDispatcher } from "../src/directory/transport.ts";
import type { Answer, Request } from "./answer.ts";
import type { ModelService } from "./service.ts";
import type { WorldClock } from "./world-clock.ts";

const HEADERS_TIMEOUT_MS = 60_000;

export interface NetworkOptions {
  readonly world: WorldClock;
  readonly service: ModelService;
  readonly latencyMs: number;
  isDead(): boolean;
}

/**
 * An undici dispatcher over the model: what the program sends and gets below its HTTP client.
 */
export function createNetwork({ world, service, latencyMs, isDead }: NetworkOptions): RequestDispatcher {
  return {
    dispatch(options, handler) {
      const exchange = createExchange(handler);
      handler.onRequestStart?.(exchange.controller, undefined as never);
      const isOver = () => isDead() || exchange.controller.aborted;
      world.after(latencyMs, () => {
        if (isOver()) return;
        const answer = service.answer(requestOf(options));
        if (answer.kind !== "hang") exchange.feed(answer);
        else world.after(HEADERS_TIMEOUT_MS, () => isOver() || exchange.feed(answer));
      });
      return true;
    },
    destroy: async () => {},
  };
}

function requestOf(options: Dispatcher.DispatchOptions): Request {
  const lines = options.headers as readonly string[];
  const organizations: string[] = [];
  let [key, provider]: (string | undefined)[] = [];
  for (let at = 0; at < lines.length; at += 2) {
    const name = lines[at]!.toLowerCase();
    if (name === "x-org-id") organizations.push(lines[at + 1]!);
    if (name === "x-provider-id") provider = lines[at + 1]!;
    if (name === "x-api-key") key = lines[at + 1]!;
  }
  const body = options.body === null || options.body === undefined ? "" : options.body.toString();
  return { method: options.method, path: options.path, organizations, provider, key, body };
}

function createExchange(handler: Dispatcher.DispatchHandler) {
  let isAborted = false;
  const controller: Dispatcher.DispatchController = {
    get aborted() {
      return isAborted;
    },
    get paused() {
      return false;
    },
    get reason() {
      return null;
    },
    abort(error: Error) {
      if (isAborted) return;
      isAborted = true;
      handler.onResponseError?.(controller, error);
    },
    pause() {},
    resume() {},
  };
  const fail = (code: string) => {
    handler.onResponseError?.(controller, Object.assign(new Error(code), { code }));
  };
  return {
    controller,
    feed(answer: Answer): void {
      switch (answer.kind) {
        case "refused":
          fail("ECONNREFUSED");
          break;
        case "cut_head":
          fail("UND_ERR_SOCKET");
          break;
        case "hang":
          fail("UND_ERR_HEADERS_TIMEOUT");
          break;
        case "cut_body":
        case "answer": {
          const bytes = Buffer.from(answer.body);
          const sent = answer.kind === "answer" ? bytes : bytes.subarray(0, bytes.length >> 1);
          handler.onResponseStart?.(controller, answer.status, { ...answer.headers }, "");
          if (!isAborted && sent.length > 0) handler.onResponseData?.(controller, sent);
          if (isAborted) return;
          if (answer.kind === "cut_body") fail("UND_ERR_SOCKET");
          else handler.onResponseEnd?.(controller, {});
        }
      }
    },
  };
}
