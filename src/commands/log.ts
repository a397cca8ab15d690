import { createRequire } from "node:module";
import { Writable } from "node:stream";
import { pino } from "pino";
import type PinoPretty from "pino-pretty";
import type { Log } from "../core/log.ts";
import type { Io } from "./io.ts";

/** Logs to standard error: readable where a person watches, JSON otherwise. */
export function createLog(io: Io, level: string): Log {
  const target = new Writable({
    write(chunk, _encoding, done) {
      io.stderr.write(chunk);
      done();
    },
  });
  const options = { level, base: null, formatters: { level: (label: string) => ({ level: label }) } };
  if (!io.interactive) return pino(options, target);
  // Loaded only where a person watches.
  const pretty = createRequire(import.meta.url)("pino-pretty") as typeof PinoPretty;
  return pino(
    { level, base: null },
    pretty({
      colorize: true,
      ignore: "pid,hostname",
      translateTime: "HH:MM:ss",
      destination: target,
      sync: true,
    }),
  );
}
