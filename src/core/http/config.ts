import { durationSchema, tlsSchema } from "../schema.ts";
import { plainHttpSchema } from "./plain-http.ts";

export const timeoutSchema = durationSchema("How long one request may take before it is tried again.", {
  minMs: 100,
  maxMs: 600_000,
}).prefault("60s");

/** The fields that every destination over HTTP has. */
export const connectionFields = {
  timeout: timeoutSchema,
  tls: tlsSchema.optional(),
  plainHttp: plainHttpSchema,
};
