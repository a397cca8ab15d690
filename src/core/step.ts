/** One turn of work: "again" when there is more to do at once, "idle" when there is not. */
export type Step = (signal: AbortSignal) => Promise<"again" | "idle">;
