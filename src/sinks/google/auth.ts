import { createSign } from "node:crypto";
import { readFile } from "node:fs/promises";
import { z } from "zod";
import type { Clock } from "../../core/clock.ts";
import { PausedError, RetryableError } from "../../core/errors.ts";
import { renewedTokens, TOKEN_ANSWER_BYTES_MAX, type Tokens } from "../../core/http/client-credentials.ts";
import type { Answer, Outgoing, Requester } from "../../core/http/requester.ts";
import { type Secret, secretSchema } from "../../core/secret.ts";
import { isSuccess, jsonOf, saying, statusError } from "../over-http/status.ts";

/*
 * Tokens of Google Cloud, in one of three ways:
 *
 * - the key of a service account: a signed assertion is exchanged for a token;
 * - workload identity federation (`type: external_account`): the token in a file is exchanged for one of Google's,
 *   and that for one of a service account where the file says so;
 * - without credentials: the metadata server of the machine, of GKE or of Cloud Run.
 */

export const googleFields = {
  credentials: secretSchema(
    "The JSON of a service account's key or of workload identity federation. Without it the machine's own service account is used.",
  ).optional(),
  metadataUrl: z
    .url({ protocol: /^https?$/ })
    .optional()
    .meta({
      description:
        "The metadata server, which gives tokens where there are no credentials; by default http://metadata.google.internal.",
    }),
};

const SCOPE = "https://www.googleapis.com/auth/cloud-platform";
/** Inside Google Cloud; there it has no other address and no TLS. */
const METADATA_URL = "http://metadata.google.internal";
const ASSERTION_LIFE_SECONDS = 3600;

const keySchema = z.looseObject({
  type: z.literal("service_account"),
  client_email: z.string().min(1),
  private_key: z.string().min(1),
  private_key_id: z.string().optional(),
  token_uri: z.url().default("https://oauth2.googleapis.com/token"),
});
const federationSchema = z.looseObject({
  type: z.literal("external_account"),
  audience: z.string().min(1),
  subject_token_type: z.string().min(1),
  token_url: z.url().default("https://sts.googleapis.com/v1/token"),
  credential_source: z.looseObject({ file: z.string().min(1) }),
  service_account_impersonation_url: z.url().optional(),
});
const credentialsSchema = z.discriminatedUnion("type", [keySchema, federationSchema]);
type Credentials = z.output<typeof credentialsSchema>;

export interface GoogleAuth {
  readonly credentials?: Secret | undefined;
  readonly metadataUrl?: string | undefined;
}

export function googleTokens(requester: Requester, clock: Clock, config: GoogleAuth): Tokens {
  const credentials = config.credentials && parsed(config.credentials);
  const send = (outgoing: Outgoing) =>
    requester.send({ ...outgoing, answerBytesMax: TOKEN_ANSWER_BYTES_MAX }, new AbortController().signal);
  return renewedTokens({
    clock,
    async ask() {
      if (credentials === undefined) return send(metadataRequest(config.metadataUrl ?? METADATA_URL));
      if (credentials.type === "service_account") return send(assertionRequest(credentials, clock.now()));
      return federated(credentials, send);
    },
    refused: (answer) => tokenError(answer as Answer),
  });
}

/** The values of a credential that no message may repeat. */
export function googleSecrets({ credentials }: GoogleAuth): readonly Secret[] {
  return credentials ? [credentials] : [];
}

function parsed(credentials: Secret): Credentials {
  const remedy =
    "Give the whole JSON file that Google made: of a service account's key, or of workload identity federation with a file as its source.";
  let json: unknown;
  try {
    json = JSON.parse(credentials.reveal());
  } catch {
    throw new PausedError("The secret of credentials is no JSON.", remedy);
  }
  const result = credentialsSchema.safeParse(json);
  if (!result.success) throw new PausedError("The secret of credentials is of another kind.", remedy);
  return result.data;
}

function metadataRequest(base: string): Outgoing {
  const url = `${base.replace(/\/+$/, "")}/computeMetadata/v1/instance/service-accounts/default/token`;
  return { method: "GET", url, headers: { "metadata-flavor": "Google" } };
}

function assertionRequest(key: z.output<typeof keySchema>, nowMs: number): Outgoing {
  const issued = Math.floor(nowMs / 1000);
  const header = { alg: "RS256", typ: "JWT", kid: key.private_key_id };
  const claims = {
    iss: key.client_email,
    scope: SCOPE,
    aud: key.token_uri,
    iat: issued,
    exp: issued + ASSERTION_LIFE_SECONDS,
  };
  const text = [header, claims].map((part) => base64url(JSON.stringify(part))).join(".");
  let signature: string;
  try {
    signature = createSign("RSA-SHA256").update(text).sign(key.private_key, "base64url");
  } catch {
    throw new PausedError(
      "The private key in credentials cannot be used.",
      "Make a new key of the service account.",
    );
  }
  return formRequest(key.token_uri, {
    grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer",
    assertion: `${text}.${signature}`,
  });
}

async function federated(
  credentials: z.output<typeof federationSchema>,
  send: (outgoing: Outgoing) => Promise<Answer>,
): Promise<{ readonly status: number; readonly text: string }> {
  const { file } = credentials.credential_source;
  let subject: string;
  try {
    subject = (await readFile(file, "utf8")).trim();
  } catch (cause) {
    throw new PausedError(`The token file ${file} cannot be read.`, "Mount it where credentials name it.", {
      cause,
    });
  }
  const exchanged = await send(
    formRequest(credentials.token_url, {
      grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
      audience: credentials.audience,
      scope: SCOPE,
      requested_token_type: "urn:ietf:params:oauth:token-type:access_token",
      subject_token_type: credentials.subject_token_type,
      subject_token: subject,
    }),
  );
  const { service_account_impersonation_url: url } = credentials;
  const token = jsonOf(exchanged)?.access_token;
  if (url === undefined || typeof token !== "string") return exchanged;
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const impersonated = await send({ url, headers, body: JSON.stringify({ scope: [SCOPE] }) });
  const { accessToken, expireTime } = jsonOf(impersonated) ?? {};
  if (typeof accessToken !== "string") return impersonated;
  const lives = Math.max(60, (Date.parse(String(expireTime)) - (impersonated.dateMs ?? Date.now())) / 1000);
  return {
    status: 200,
    text: JSON.stringify({ access_token: accessToken, expires_in: Math.floor(lives) || 300 }),
  };
}

function formRequest(url: string, fields: Readonly<Record<string, string>>): Outgoing {
  const headers = { "content-type": "application/x-www-form-urlencoded" };
  return { url, headers, body: new URLSearchParams(fields).toString() };
}

function base64url(text: string): string {
  return Buffer.from(text).toString("base64url");
}

function tokenError(answer: Answer): Error {
  const { error, error_description: description } = jsonOf(answer) ?? {};
  const said = saying(
    typeof error === "object" ? (error as { message?: string } | null)?.message : error,
    description,
  );
  const remedy =
    "Correct credentials: the key may have been deleted, or this machine's clock is wrong. Without credentials the machine needs a service account.";
  const destination = "Google's token service";
  if (isSuccess(answer)) return new RetryableError(`${destination} answered without a token.`);
  return (
    statusError(answer, { destination, said, remedy }) ??
    new PausedError(`${destination} answered ${answer.status}: ${said ?? "no reason given"}`, remedy)
  );
}
