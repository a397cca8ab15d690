import { hash } from "node:crypto";
import { PausedError, RetryableError, TooLargeError } from "../../core/errors.ts";
import { isConfirmed } from "../../core/http/confirmed.ts";
import {
  type Answer,
  makeRequester,
  type Outgoing,
  type SignableRequest,
} from "../../core/http/requester.ts";
import { type Secret, secretOf } from "../../core/secret.ts";
import type { SinkContext } from "../../core/sink.ts";
import { DIGEST, type DigestName, type ObjectStore } from "../objects/store.ts";
import { skewRemarks } from "../over-http/probe.ts";
import { isSuccess, saying, statusError } from "../over-http/status.ts";
import type { AzureBlobConfig } from "./config.ts";
import { entraTokens } from "./entra.ts";
import { sharedKeyAuthorization } from "./shared-key.ts";

const API_VERSION = "2021-12-02";

/** A container of Azure Blob Storage. Blobs are block blobs, created with If-None-Match. */
export async function openContainer(
  { clock }: SinkContext<unknown>,
  config: AzureBlobConfig,
  prefix: string,
): Promise<ObjectStore> {
  const { account, container, accountKey, sas, entra } = config;
  const base = (config.endpoint ?? `https://${account}.blob.core.windows.net`).replace(/\/+$/, "");
  const place = `${base}/${container}`;
  const query = (sas?.reveal() ?? "").trim().replace(/^\?/, "");
  const secrets: Secret[] = [accountKey, sas, entra?.clientSecret].filter((secret) => secret !== undefined);
  const signature = new URLSearchParams(query).get("sig");
  const requester = await makeRequester({
    destination: place,
    clock,
    timeoutMs: config.timeout,
    connections: 8,
    tls: config.tls,
    secrets: [...secrets, ...(signature ? [secretOf(signature)] : [])],
    ...(accountKey && { sign: async (request: SignableRequest) => signed(request, account, accountKey) }),
  });
  const tokens = entra && entraTokens(requester, clock, entra);

  async function send(outgoing: Omit<Outgoing, "url"> & { readonly path: string }, signal: AbortSignal) {
    const { path, ...rest } = outgoing;
    const [bare, own = ""] = path.split("?", 2);
    const search = [own, query].filter((part) => part !== "").join("&");
    const url = `${base}/${container}${bare}${search === "" ? "" : `?${search}`}`;
    const ask = async () => {
      const token = await tokens?.get(signal);
      const headers = {
        ...rest.headers,
        "x-ms-version": API_VERSION,
        "x-ms-date": new Date(clock.now()).toUTCString(),
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
      };
      return { token, answer: await requester.send({ ...rest, url, headers }, signal) };
    };
    const { token, answer } = await ask();
    if (answer.status !== 401 || token === undefined) return answer;
    // The token may have been revoked before it expired: try once more with a new one.
    tokens?.forget(token);
    return (await ask()).answer;
  }

  async function digestOf(
    key: string,
    signal: AbortSignal,
    name: DigestName = DIGEST,
  ): Promise<string | undefined> {
    const answer = await send({ method: "HEAD", path: pathOf(key), headers: {} }, signal);
    if (answer.status === 404) return undefined;
    if (!isAzure(answer, place, 200)) throw azureError(answer, place);
    return String(answer.headers[metadataName(name)] ?? "");
  }

  async function isStored(key: string, signal: AbortSignal): Promise<boolean> {
    try {
      return (await digestOf(key, signal)) !== undefined;
    } catch (error) {
      if (signal.aborted) throw error;
      return false;
    }
  }

  const pathOf = (key: string) => `/${key.split("/").map(encodeURIComponent).join("/")}`;

  return {
    place,
    async create({ key, body, contentType, metadata }, signal) {
      const headers = {
        "x-ms-blob-type": "BlockBlob",
        "if-none-match": "*",
        "content-type": contentType,
        // Lets the service refuse a body that was damaged on its way, and keeps the hash with the blob.
        "content-md5": hash("md5", body, "base64"),
        ...metadataHeaders(metadata),
        ...(config.tier && { "x-ms-access-tier": config.tier }),
      };
      const answer = await send({ method: "PUT", path: pathOf(key), headers, body }, signal);
      if (isAzure(answer, place, 201)) return true;
      if (TAKEN.includes(codeOf(answer))) return false;
      // A signature with the right to create is refused like this for a blob that exists.
      if (answer.status === 403 && (await isStored(key, signal))) return false;
      throw azureError(answer, place);
    },
    digestOf,
    async greet(signal) {
      const path = `?restype=container&comp=list&maxresults=1&prefix=${encodeURIComponent(prefix)}`;
      const answer = await send({ method: "GET", path, headers: {} }, signal);
      // Listing is not needed: a user who may only write is welcome.
      if (isAzure(answer, place, 200) || MAY_NOT_LIST.includes(codeOf(answer))) return;
      throw azureError(answer, place);
    },
    async probe(key, signal) {
      const headers = { "x-ms-blob-type": "BlockBlob", "if-none-match": "*", "content-md5": WRONG_MD5 };
      const answer = await send({ method: "PUT", path: pathOf(key), headers, body: "check" }, signal);
      if (codeOf(answer) !== "Md5Mismatch") throw probeError(answer, place, key);
      return skewRemarks(answer.dateMs, clock.now());
    },
    close: () => requester.close(),
  };
}

/** The MD5 of nothing, for a body that is something. */
const WRONG_MD5 = hash("md5", "", "base64");
const TAKEN: readonly string[] = ["BlobAlreadyExists", "ConditionNotMet", "BlobImmutableDueToPolicy"];
const MAY_NOT_LIST: readonly string[] = ["AuthorizationPermissionMismatch", "AuthorizationFailure"];

async function signed({ ...request }: SignableRequest, account: string, key: Secret) {
  const authorization = sharedKeyAuthorization(request, account, key.reveal());
  return { ...request.headers, authorization };
}

/** Every answer of the service carries its own id of the request. */
function isAzure(answer: Answer, destination: string, expected: number): boolean {
  return isConfirmed(answer, {
    destination,
    expected: `the service's ${expected} with x-ms-request-id`,
    isGiven: ({ status, headers }) => status === expected && headers["x-ms-request-id"] !== undefined,
  });
}

/** Names of metadata are identifiers here: a hyphen becomes an underscore. */
function metadataName(name: string): string {
  return `x-ms-meta-${name.replaceAll("-", "_")}`;
}

function metadataHeaders(metadata: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(metadata).map(([name, value]) => [metadataName(name), value]));
}

/** The service's own code; a HEAD has it in a header alone. */
function codeOf(answer: Answer): string {
  return String(answer.headers["x-ms-error-code"] ?? /<Code>(\w+)<\/Code>/.exec(answer.text)?.[1] ?? "");
}

const REMEDIES: Readonly<Record<string, string>> = {
  AuthenticationFailed:
    "Correct accountKey, sas or entra, and set this machine's clock: signatures carry the time.",
  AuthorizationFailure: "Allow this network in the account's firewall, and writing in the signature.",
  AuthorizationPermissionMismatch:
    "Give the application the role Storage Blob Data Contributor, or the signature the rights create and read.",
  ContainerNotFound: "Create the container, or correct account and container.",
  InvalidAuthenticationInfo: "Correct accountKey, sas or entra.",
  KeyBasedAuthenticationNotPermitted: "The account takes no keys: use entra.",
};
const REMEDY = "Correct this sink's config, or the container's settings.";

function azureError(answer: Answer, place: string): Error {
  const code = codeOf(answer);
  const message = /<Message>([^<\n]*)/.exec(answer.text)?.[1];
  const said = saying(code, message);
  const remedy = REMEDIES[code] ?? REMEDY;
  if (code === "RequestBodyTooLarge") return new TooLargeError(`${place} answered ${answer.status}: ${said}`);
  if (answer.status === 409 || code === "Md5Mismatch")
    return new RetryableError(`${place} answered ${answer.status}: ${said}`);
  return (
    statusError(answer, { destination: place, said, remedy }) ??
    new PausedError(`${place} answered ${answer.status}: ${said ?? "no reason given"}`, remedy)
  );
}

function probeError(answer: Answer, place: string, key: string): Error {
  if (!isSuccess(answer)) return azureError(answer, place);
  return new PausedError(
    `${place} accepted a body with a wrong checksum, under ${key}.`,
    "Use a store that verifies checksums: this one would keep damaged blobs.",
  );
}
