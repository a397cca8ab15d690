import { randomBytes } from "node:crypto";
import { getEnvironmentData, setEnvironmentData } from "node:worker_threads";

const NAME = "tidemark.seed";

/**
 * The seed of all hashes that threads exchange, as sixteen hexadecimal digits. It is another one in each process, so that
 * nobody outside can make two events with one hash. Threads inherit it.
 */
export const PROCESS_SEED: string = inherited() ?? randomBytes(8).toString("hex");
setEnvironmentData(NAME, PROCESS_SEED);

function inherited(): string | undefined {
  const seed = getEnvironmentData(NAME);
  return typeof seed === "string" ? seed : undefined;
}

/** The seed as WebAssembly takes it: two numbers of four bytes. */
export function seedNumbers(seed: string): [low: number, high: number] {
  return [Number.parseInt(seed.slice(8), 16), Number.parseInt(seed.slice(0, 8), 16)];
}
