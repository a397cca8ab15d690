import { PausedError } from "../../core/errors.ts";
import type { RequesterOptions } from "../../core/http/requester.ts";
import { type Secret, secretOf } from "../../core/secret.ts";

export interface BulkCredentials {
  /** The Authorization header, if any. */
  readonly authorization: string | undefined;
  readonly secrets: readonly Secret[];
  /** Signs every request instead. */
  readonly sign?: RequesterOptions["sign"];
}

/** Basic authentication, or none where neither user nor password is set. */
export function basicCredentials(config: {
  readonly username?: string | undefined;
  readonly password?: Secret | undefined;
}): BulkCredentials {
  const { username, password } = config;
  if (username === undefined && password === undefined) return { authorization: undefined, secrets: [] };
  if (username === undefined || password === undefined)
    throw new PausedError("Only one of username and password is set.", "Set both, or neither.");
  const token = Buffer.from(`${username}:${password.reveal()}`).toString("base64");
  // A server that says back what it was sent says the encoded form.
  return { authorization: `Basic ${token}`, secrets: [password, secretOf(token)] };
}
