import { type ChildProcess, spawn } from "node:child_process";
import { UsageError } from "../../core/errors.ts";
import type { Log } from "../../core/log.ts";
import type { InsightsAnswer } from "../insights/answer.ts";
import { encodeMessage, messagesOf } from "./frames.ts";
import type { SearchService, ServiceRequest } from "./service.ts";

export interface ProcessOptions {
  /** The program and its arguments. */
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly log: Log;
  /** Without a question for so long the process ends, with its memory. */
  readonly idleMs: number;
}

interface Waiting {
  resolve(answer: InsightsAnswer): void;
  reject(error: unknown): void;
}

/** After bringing the index up to date the process ends at once, unless somebody has been searching. */
const SYNC_IDLE_MS = 1000;
/** A process that takes longer to end is killed: whatever it leaves unfinished, the next one makes again. */
const END_MS_MAX = 5000;

/**
 * The search process as seen by the exporter. It is started by the first question. When it ends, waiting questions
 * fail, and the next question starts it again.
 */
export function createServiceClient(options: ProcessOptions): SearchService & { close(): Promise<void> } {
  const { command, env, log, idleMs } = options;
  const waiting = new Map<number, Waiting>();
  let child: ChildProcess | undefined;
  let asked = 0;
  let idle: NodeJS.Timeout | undefined;
  let keptUntilMs = 0;

  function started(): ChildProcess {
    if (child !== undefined) return child;
    const [program, ...args] = command as [string, ...string[]];
    const own = spawn(program, args, { env: env as NodeJS.ProcessEnv, stdio: ["pipe", "pipe", "pipe"] });
    child = own;
    let said = "";
    own.stderr!.on("data", (chunk: Buffer) => {
      said = (said + chunk.toString()).slice(-2000);
    });
    own.stdin!.on("error", () => {});
    own.on("error", (error) => failed(own, error));
    own.on("exit", (code, signal) => {
      const reason = said.trim() || `it ended with ${signal ?? `code ${code}`}`;
      if (waiting.size > 0) log.warn({ reason, code, signal }, "The search process has ended.");
      failed(own, new UsageError(reason));
    });
    receive(own).catch((error) => failed(own, error));
    return own;
  }

  function failed(own: ChildProcess, error: unknown): void {
    if (child !== own) return;
    child = undefined;
    for (const { reject } of waiting.values()) reject(error);
    waiting.clear();
  }

  async function receive(own: ChildProcess): Promise<void> {
    for await (const { head, body } of messagesOf(own.stdout!)) {
      const { id, error, isUsage, status, headers, events } = head as unknown as InsightsAnswer & {
        id: number;
        error?: string;
        isUsage?: boolean;
      };
      const question = waiting.get(id);
      waiting.delete(id);
      if (error === undefined) question?.resolve({ status, headers, body, events });
      else question?.reject(isUsage ? new UsageError(error) : new Error(error));
    }
  }

  function restartIdle({ kind }: ServiceRequest): void {
    clearTimeout(idle);
    const nowMs = performance.now();
    keptUntilMs = Math.max(keptUntilMs, nowMs + (kind === "sync" ? SYNC_IDLE_MS : idleMs));
    idle = setTimeout(() => {
      if (waiting.size > 0) return;
      // A question that comes while it ends starts another one.
      child?.stdin?.end();
      child = undefined;
    }, keptUntilMs - nowMs);
    idle.unref();
  }

  return {
    answer(request: ServiceRequest, signal: AbortSignal): Promise<InsightsAnswer> {
      signal.throwIfAborted();
      const id = ++asked;
      const own = started();
      restartIdle(request);
      let cancel = () => {};
      return new Promise<InsightsAnswer>((resolve, reject) => {
        waiting.set(id, { resolve, reject });
        cancel = () => {
          waiting.delete(id);
          for (const piece of encodeMessage({ id, cancel: true })) own.stdin!.write(piece);
          reject(signal.reason);
        };
        signal.addEventListener("abort", cancel, { once: true });
        for (const piece of encodeMessage({ id, request })) own.stdin!.write(piece);
      }).finally(() => {
        signal.removeEventListener("abort", cancel);
        restartIdle(request);
      });
    },
    async close() {
      clearTimeout(idle);
      const own = child;
      if (own === undefined) return;
      const gone = new Promise((resolve) => own.once("exit", resolve));
      own.stdin!.end();
      own.kill("SIGTERM");
      const late = setTimeout(() => own.kill("SIGKILL"), END_MS_MAX);
      await gone;
      clearTimeout(late);
    },
  };
}
