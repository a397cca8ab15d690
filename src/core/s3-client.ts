import { Agent } from "node:https";
import { pipeline, Readable, Transform } from "node:stream";
import type { S3Client } from "@aws-sdk/client-s3";
import { RetryableError } from "./errors.ts";
import { type AnswerParts, isConfirmed, isWebPage } from "./http/confirmed.ts";
import { readTls, type TlsConfig } from "./http/tls.ts";
import type { Secret } from "./secret.ts";

/** The connection to S3 or a compatible service, as configs state it. */
export interface S3Connection {
  readonly region: string;
  readonly endpoint?: string | undefined;
  readonly pathStyle: boolean;
  /** Without them the SDK's usual chain: environment, web identity, shared config, container and instance role. */
  readonly accessKeyId?: Secret | undefined;
  readonly secretAccessKey?: Secret | undefined;
  readonly sessionToken?: Secret | undefined;
  /** For connecting. The callers limit whole requests: the SDK's own limit only writes a warning. */
  readonly timeout: number;
  readonly tls?: TlsConfig | undefined;
}

export interface S3Use {
  readonly connections: number;
}

/** A client that never repeats a request by itself: callers know what a repetition means. */
export async function openS3Client(connection: S3Connection, use: S3Use): Promise<S3Client> {
  const { S3Client } = await import("@aws-sdk/client-s3");
  const { accessKeyId, secretAccessKey, sessionToken, timeout } = connection;
  const tls = await readTls(connection.tls);
  const client = new S3Client({
    region: connection.region,
    forcePathStyle: connection.pathStyle,
    maxAttempts: 1,
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    ...(connection.endpoint && { endpoint: connection.endpoint }),
    ...(accessKeyId &&
      secretAccessKey && {
        credentials: {
          accessKeyId: accessKeyId.reveal(),
          secretAccessKey: secretAccessKey.reveal(),
          ...(sessionToken && { sessionToken: sessionToken.reveal() }),
        },
      }),
    requestHandler: {
      connectionTimeout: timeout,
      httpsAgent: new Agent({ keepAlive: true, maxSockets: use.connections, ...tls }),
    },
  });
  client.middlewareStack.add(
    (next, { commandName = "" }) =>
      async (args) => {
        const result = await next(args);
        const response = result.response as Response;
        const { statusCode, headers } = response;
        isConfirmed({ status: statusCode, headers }, confirmationOf(commandName, connection.endpoint));
        const isObject = commandName === "GetObjectCommand" && statusCode < 300;
        const bytesMax = isObject ? objectBytesMax(args.input) : ANSWER_BYTES_MAX;
        response.body = bounded(response.body, bytesMax, connection.endpoint ?? "S3");
        return result;
      },
    { step: "deserialize", priority: "low" },
  );
  return client;
}

const ANSWER_BYTES_MAX = 16 * 2 ** 20;

/** Of an object that is read whole. Larger ones are read in ranges. */
const OBJECT_BYTES_MAX = 512 * 2 ** 20;

/** A service that ignores the range would send another part of the object. */
function objectBytesMax(input: object): number {
  const { Range = "" } = input as { readonly Range?: string };
  const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(Range) ?? [];
  return to === undefined ? OBJECT_BYTES_MAX : Number(to) - Number(from) + 1;
}

/** Answers are collected in memory, so one without an end would fill it. */
function bounded(body: unknown, bytesMax: number, destination: string): unknown {
  if (!(body instanceof Readable)) return body;
  let bytes = 0;
  const limited = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes <= bytesMax) done(null, chunk);
      else
        done(
          new RetryableError(
            `${destination} sent more than ${bytesMax} bytes, which is more than this answer of S3 may have. Check the endpoint and the proxies on the way.`,
          ),
        );
    },
  });
  // Ends the connection too; whoever reads gets the error.
  pipeline(body, limited, () => {});
  return limited;
}

interface Response {
  body: unknown;
  readonly statusCode: number;
  /** By name in lower case. */
  readonly headers: Readonly<Record<string, string>>;
}

/** The service answers these with the object's ETag, which a proxy or a sign-in page does not know. */
const ABOUT_ONE_OBJECT = ["PutObjectCommand", "HeadObjectCommand", "GetObjectCommand"];

function confirmationOf(commandName: string, endpoint: string | undefined) {
  const hasEtag = ABOUT_ONE_OBJECT.includes(commandName);
  return {
    destination: endpoint ?? "S3",
    expected: hasEtag ? "the service's answer with an ETag" : "the service's answer",
    isGiven: (answer: AnswerParts) => !isWebPage(answer) && (!hasEtag || answer.headers.etag !== undefined),
  };
}

export interface S3Fault {
  readonly name: string;
  readonly status: number | undefined;
  /** By name in lower case. */
  readonly headers: Readonly<Record<string, string>>;
}

/** The service's name for an error, and the status and headers it came with. */
export function s3Fault(error: unknown): S3Fault {
  const { name, Code, $metadata, $response } = error as {
    readonly name?: string;
    readonly Code?: string;
    readonly $metadata?: { readonly httpStatusCode?: number };
    readonly $response?: { readonly statusCode?: number; readonly headers?: Record<string, string> };
  };
  const status = $metadata?.httpStatusCode ?? $response?.statusCode;
  return { name: Code ?? name ?? "", status, headers: $response?.headers ?? {} };
}
