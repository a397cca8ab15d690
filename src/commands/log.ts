import { createRequire } from "node:module";
import { Writable } from "node:stream";
import { pino } from "pino";
import type PinoPretty from "pino-pretty";
import { explain } from "../core/errors.ts";
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
  const serializers = { err: errorFields };
  const formatters = { level: (label: string) => ({ level: label }) };
  const options = { level, base: null, serializers, formatters };
  if (!io.interactive) return pino(options, target);
  // Loaded only where a person watches.
  const pretty = createRequire(import.meta.url)("pino-pretty") as typeof PinoPretty;
  return pino(
    { level, base: null, serializers },
    pretty({
      colorize: true,
      ignore: "pid,hostname",
      translateTime: "HH:MM:ss",
      destination: target,
      sync: true,
    }),
  );
}

/** The message and its causes in one sentence, as everywhere else. */
function errorFields(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  return { ...pino.stdSerializers.err(error), message: explain(error) };
}
