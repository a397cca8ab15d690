/** What holds for jobs without a definition of their own. */
export const DEFAULTS = { quietAfterMs: 120_000, finishAfterMs: 900_000 } as const;
