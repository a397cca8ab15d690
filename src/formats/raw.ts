import { z } from "zod";
import { defineFormat } from "../core/format.ts";
import { oneLine } from "./one-line.ts";

/** The original bytes. */
export const raw = defineFormat({
  name: "raw",
  summary: "The event's original bytes, as the service sent them.",
  options: z.strictObject({}),
  create: () => ({
    name: "raw",
    mediaType: "application/json",
    variable: [""],
    encode: (event) => oneLine(event),
    encodeFramed: (event) => event.bytes,
    keepsBytes: true,
  }),
});
