import { z } from "zod";

/** Milliseconds since the epoch, or a duration in milliseconds. */
export const ms = z.number();
export const count = z.int().min(0);
