/** Waiting times of jobs without a definition in the config. */
export const DEFAULTS = { quietAfterMs: 120_000, finishAfterMs: 900_000 } as const;
