import { z } from "zod";
import type { Clock } from "../core/clock.ts";
import { PausedError, RetryableError, TooLargeError } from "../core/errors.ts";
import type { JournalEvent } from "../core/event.ts";
import { connectionFields } from "../core/http/config.ts";
import { isConfirmed, unconfirmed } from "../core/http/confirmed.ts";
import { type Answer, makeRequester } from "../core/http/requester.ts";
import { durationSchema, sizeSchema } from "../core/schema.ts";
import { secretSchema } from "../core/secret.ts";
import { type Batch, defineSink } from "../core/sink.ts";
import { unnamedRefusalOf } from "./over-http/halve.ts";
import { probeOver } from "./over-http/probe.ts";
import { requestKeyOf } from "./over-http/request-key.ts";
import { isSuccess, saying, statusError } from "./over-http/status.ts";
import { textOf } from "./shared/body.ts";

const nameSchema = (description: string) =>
  z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_]{0,99}$/, { error: "letters, digits and underscores" })
    .meta({ description });

const clickhouseSchema = z.strictObject({
  url: z
    .url({ protocol: /^https?$/ })
    .meta({ description: "The server's HTTP address, such as https://clickhouse.example:8443." }),
  database: nameSchema("The database.").default("default"),
  table: nameSchema(
    "The table, with the columns time (DateTime64(3)), identity, account, organization, service, event_type and event (String).",
  ),
  username: z.string().min(1).default("default").meta({ description: "The user." }),
  password: secretSchema("The user's password.").optional(),
  gzip: z.boolean().default(true).meta({ description: "Compresses bodies with gzip." }),
  batchBytesMax: sizeSchema("The largest insert, before compression.", {
    min: 10_000,
    max: 100e6,
  }).prefault("16MB"),
  batchEventsMax: z.int().min(1).max(1_000_000).default(50_000).meta({
    description: "The most events in one insert; few and large inserts suit ClickHouse.",
  }),
  batchAgeMax: durationSchema("How long a batch that is not full waits for more events.", {
    maxMs: 3_600_000,
  }).prefault("5s"),
  ...connectionFields,
});
type ClickhouseConfig = z.output<typeof clickhouseSchema>;

export const clickhouse = defineSink({
  type: "clickhouse",
  summary: "Inserts events into a table of ClickHouse, over HTTP.",
  config: clickhouseSchema,
  defaultFormat: "raw",
  guarantee: "at_least_once",
  promise:
    "At least once, and once within the table's deduplication window: a repeated insert carries the same insert_deduplication_token. The identity is a column of every row.",
  boundsFirst: true,
  refusesWhole: true,

  async open({ config, format, clock, signal }) {
    const { requester, destination, table, headers, addressOf } = await connect(config, clock);

    async function send(batch: Batch, abort: AbortSignal): Promise<void> {
      const { records } = batch;
      const url = addressOf({
        query: `INSERT INTO ${table} FORMAT JSONEachRow`,
        insert_deduplication_token: requestKeyOf(batch),
        // One block for one insert, so that the token covers all of it. A batch that was begun may be larger.
        max_insert_block_size: String(Math.max(config.batchEventsMax, records.length)),
        async_insert: "0",
        date_time_input_format: "best_effort",
      });
      const body = Buffer.concat(records.flatMap((record) => [record.body, BREAK]));
      const answer = await requester.send({ url, headers, body, gzip: config.gzip }, abort);
      if (isInserted(answer, destination)) return;
      const error = clickhouseError(answer, destination);
      if (error) throw error;
      const reason = `ClickHouse answered ${saidOf(answer)}`;
      throw unnamedRefusalOf(records.length, { reason, answer: answer.text });
    }

    try {
      const url = addressOf({ query: `DESCRIBE TABLE ${table}` });
      const answer = await requester.send(
        { method: "GET", url, headers, answerBytesMax: TABLE_BYTES_MAX },
        signal,
      );
      const error = tableError(answer, destination);
      if (error) throw error;
    } catch (error) {
      await requester.close();
      throw error;
    }

    return {
      limits: {
        recordsMax: config.batchEventsMax,
        bytesMax: config.batchBytesMax,
        limitedBy: "batchBytesMax",
        recordOverheadBytes: 1,
        ageMsMax: config.batchAgeMax,
      },
      writesMax: INSERTS_MAX,
      encode: (event) => rowOf(event, textOf(format.encode(event))),
      async write(batch, abort) {
        abort.throwIfAborted();
        await send(batch, abort);
        return undefined;
      },
      close: () => requester.close(),
    };
  },

  async probe({ config, clock, signal }) {
    const { requester, destination, table, headers, addressOf } = await connect(config, clock);
    const columns = {
      method: "GET",
      url: addressOf({ query: `DESCRIBE TABLE ${table} FORMAT TSV` }),
      headers,
      answerBytesMax: TABLE_BYTES_MAX,
      judge: (answer: Answer) => tableError(answer, destination) ?? missingColumns(answer, table),
    } as const;
    const grant = {
      method: "GET",
      url: addressOf({ query: `CHECK GRANT INSERT ON ${table}` }),
      headers,
      answerBytesMax: TABLE_BYTES_MAX,
      judge: (answer: Answer) =>
        isSuccess(answer) && answer.text.trim() === "0"
          ? new PausedError(
              `The user ${config.username} may not insert into ${table}.`,
              `Grant it: GRANT INSERT ON ${table} TO ${config.username}.`,
            )
          : undefined,
      remark: (answer: Answer) =>
        isSuccess(answer) ? [] : ["This server cannot tell whether the user may insert (CHECK GRANT)."],
    } as const;
    return probeOver({ requester, clock, signal, requests: [columns, grant] });
  },
});

async function connect(config: ClickhouseConfig, clock: Clock) {
  const base = config.url.replace(/\/+$/, "");
  const destination = `ClickHouse at ${new URL(base).origin}`;
  const requester = await makeRequester({
    destination,
    clock,
    timeoutMs: config.timeout,
    tls: config.tls,
    secrets: config.password ? [config.password] : [],
  });
  const headers: Record<string, string> = {
    "x-clickhouse-user": config.username,
    ...(config.password && { "x-clickhouse-key": config.password.reveal() }),
  };
  const addressOf = (parameters: Readonly<Record<string, string>>) =>
    `${base}/?${new URLSearchParams(parameters)}`;
  return { requester, destination, table: `${config.database}.${config.table}`, headers, addressOf };
}

/** Every answer of the server carries headers such as X-ClickHouse-Query-Id and X-ClickHouse-Summary. */
function isClickhouse(answer: Answer, destination: string): boolean {
  return isConfirmed(answer, {
    destination,
    expected: "an answer with headers of ClickHouse (X-ClickHouse-…)",
    isGiven: ({ headers }) => Object.keys(headers).some((name) => name.startsWith("x-clickhouse-")),
  });
}

/**
 * An insert that worked has an empty body. The server may begin its answer with a 200 and meet an error later: the body
 * then has the error's text, in newer versions between two lines `__exception__`.
 */
function isInserted(answer: Answer, destination: string): boolean {
  if (!isClickhouse(answer, destination) || codeOf(answer) !== undefined) return false;
  if (answer.text.trim() === "" && (answer.headers[EXCEPTION_CODE] ?? "0") === "0") return true;
  throw unconfirmed(answer, { destination, expected: "the empty body of an insert" });
}

/** The error in the answer to DESCRIBE TABLE. A user who may only insert is not allowed to see the columns. */
function tableError(answer: Answer, destination: string): Error | undefined {
  if (codeOf(answer) === CODES.notEnoughPrivileges || isClickhouse(answer, destination)) return undefined;
  return clickhouseError(answer, destination) ?? new PausedError(`${destination}: ${saidOf(answer)}`, REMEDY);
}

/** Where an error comes after the beginning of the answer, or the body is not its text. */
const EXCEPTION_CODE = "x-clickhouse-exception-code";
/** Of an answer about a table: some thousands of columns. */
const TABLE_BYTES_MAX = 262_144;
const COLUMNS = ["time", "identity", "account", "organization", "service", "event_type", "event"];

function missingColumns(answer: Answer, table: string): Error | undefined {
  if (!isSuccess(answer)) return undefined;
  const present = answer.text.split("\n").map((line) => line.split("\t", 1)[0]);
  const missing = COLUMNS.filter((name) => !present.includes(name));
  if (missing.length === 0) return undefined;
  return new PausedError(
    `The table ${table} lacks the columns ${missing.join(", ")}.`,
    "Add them, or create the table as the guide shows.",
  );
}

/** Few and large inserts suit ClickHouse: while one is under way, the next one is encoded, compressed and sent. */
const INSERTS_MAX = 2;
const BREAK = Buffer.from("\n");
const REMEDY = "Correct url, database, table and credentials, or the user's rights.";

function rowOf(event: JournalEvent, body: string): string {
  return JSON.stringify({
    time: new Date(event.timestampMs).toISOString(),
    identity: event.identity,
    account: event.account,
    organization: event.organization ?? "",
    service: event.service,
    event_type: event.eventType,
    event: body,
  });
}

/** ClickHouse's own error codes, which say more than the status. */
const CODES = {
  unknownTable: 60,
  unknownDatabase: 81,
  timeoutExceeded: 159,
  authenticationFailed: 516,
  requiredPassword: 194,
  wrongPassword: 193,
  unknownUser: 192,
  readonly: 164,
  tooManySimultaneousQueries: 202,
  memoryLimitExceeded: 241,
  tableIsReadOnly: 242,
  tooManyParts: 252,
  notEnoughPrivileges: 497,
  cannotParseText: 6,
  cannotParseInput: 27,
  cannotParseDatetime: 41,
  incorrectData: 117,
  cannotInsertNull: 349,
  violatedConstraint: 469,
} as const;

const RETRIED: readonly number[] = [
  CODES.timeoutExceeded,
  CODES.tooManySimultaneousQueries,
  CODES.memoryLimitExceeded,
  CODES.tableIsReadOnly,
  CODES.tooManyParts,
];
const PAUSED: readonly number[] = [
  CODES.unknownTable,
  CODES.unknownDatabase,
  CODES.authenticationFailed,
  CODES.requiredPassword,
  CODES.wrongPassword,
  CODES.unknownUser,
  CODES.readonly,
  CODES.notEnoughPrivileges,
];
/** About the rows, also where the server says so with a 500 or behind a 200. */
const REFUSED: readonly number[] = [
  CODES.cannotParseText,
  CODES.cannotParseInput,
  CODES.cannotParseDatetime,
  CODES.incorrectData,
  CODES.cannotInsertNull,
  CODES.violatedConstraint,
];

function codeOf({ text, headers }: Answer): number | undefined {
  const match = /^([1-9]\d*)$/.exec(String(headers[EXCEPTION_CODE])) ?? /\bCode: ([1-9]\d*)\b/.exec(text);
  return match ? Number(match[1]) : undefined;
}

/** Undefined when the server has refused the rows: it usually answers those with 400 and a code of parsing. */
function clickhouseError(answer: Answer, destination: string): Error | undefined {
  const code = codeOf(answer);
  const said = saidOf(answer);
  const message = `${destination} answered ${said}`;
  if (code !== undefined && RETRIED.includes(code))
    return new RetryableError(message, { retryAfterMs: answer.retryAfterMs });
  if (code !== undefined && PAUSED.includes(code)) return new PausedError(message, REMEDY);
  if (answer.status === 413) return new TooLargeError(message);
  if (code !== undefined && REFUSED.includes(code)) return undefined;
  // Any other code is usually about the server: a full disk, no Keeper, no quorum.
  if (isSuccess(answer)) return new RetryableError(message, { retryAfterMs: answer.retryAfterMs });
  return statusError(answer, { destination, said, remedy: REMEDY });
}

function saidOf(answer: Answer): string {
  // The beginning of the error's first line names it; quoted values of the rows may follow.
  const text = answer.text.slice(Math.max(answer.text.search(/\bCode: \d/), 0));
  const [line = ""] = text.split(/[\n(]|\s['"]/, 1);
  return saying(answer.status, line) ?? String(answer.status);
}
