import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Log } from "../src/core/log.ts";
import type { Violation } from "./findings.ts";
import { type LifeOptions, type LifeResult, live } from "./life.ts";
import type { Plan } from "./plan.ts";

/** Lives plans in a folder in memory, where there is one. */
export interface Runner {
  /** A program that ends by itself, or that throws, is a violation too. */
  run(plan: Plan, log?: Log, options?: LifeOptions): Promise<LifeResult>;
  close(): void;
}

export function createRunner(): Runner {
  const folder = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "tidemark-sim-"));
  // Rejections that a killed process leaves behind mean nothing.
  const ignore = () => {};
  process.on("unhandledRejection", ignore);
  return {
    async run(plan, log, options) {
      try {
        return await live(plan, folder, log, options);
      } catch (error) {
        const violation: Violation = { rule: "program", message: textOf(error) };
        const nothing = { digest: "", steps: 0, requests: 0, events: 0, delivered: 0, faults: {} };
        return { violations: [violation], ...nothing };
      }
    },
    close() {
      process.off("unhandledRejection", ignore);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function textOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error ? `\ncaused by ${error.cause.stack}` : "";
  return `${error.stack}${cause}`;
}

/** Every line of the program's log, for one life that is looked at closely. */
export function printingLog(print: (line: string) => void): Log {
  const plain = (_: string, value: unknown) => (value instanceof Error ? value.message : value);
  const line = (fields: object, sentence: string) => print(`${sentence} ${JSON.stringify(fields, plain)}`);
  const log: Log = { error: line, warn: line, info: line, debug: line, child: () => log };
  return log;
}
