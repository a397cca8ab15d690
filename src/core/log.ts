/** The logger that the parts use; pino implements it. Messages are constant, data goes into fields. */
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
