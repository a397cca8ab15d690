/** What the parts need of a logger; pino satisfies it. Sentences are constant, data goes into fields. */
export interface Log {
  error(fields: object, sentence: string): void;
  warn(fields: object, sentence: string): void;
  info(fields: object, sentence: string): void;
  debug(fields: object, sentence: string): void;
  child(fields: object): Log;
}

export const silentLog: Log = {
  error() {},
  warn() {},
  info() {},
  debug() {},
  child: () => silentLog,
};
