/** One turn of work. "again": there is more to do now. "idle": there is not. */
export type Step = (signal: AbortSignal) => Promise<"again" | "idle">;
