import { type Received, type Reply, startServer } from "./server.ts";

export type ClickhouseRow = Readonly<Record<string, string>>;

/**
 * A stand-in for ClickHouse's HTTP interface, written from its documentation: JSONEachRow inserts that are
 * taken or refused as a whole, deduplication by insert_deduplication_token, errors as `Code: N. DB::Exception`. Every
 * answer has headers of the server.
 */
export async function startClickhouse(options: { readonly password: string; readonly table: string }) {
  const state = { password: options.password, refusedIds: [] as readonly string[], mayInsert: true };
  const stored: ClickhouseRow[] = [];
  const tokens = new Set<string>();
  let inserts = 0;

  function answer(received: Received): Reply {
    if (received.headers["x-clickhouse-key"] !== state.password)
      return exception(516, "default: Authentication failed", 403);
    const query = received.query.get("query") ?? "";
    if (!query.includes(options.table)) return exception(60, "Table audit.missing does not exist", 404);
    if (query.startsWith("DESCRIBE"))
      return { status: 200, body: COLUMNS.map((name) => `${name}\tString\t\t\t\t\t\n`).join("") };
    if (query.startsWith("CHECK GRANT")) return { status: 200, body: state.mayInsert ? "1\n" : "0\n" };
    if (!query.startsWith("INSERT")) return exception(62, "Syntax error", 400);
    inserts++;
    const text = received.body.toString();
    if (state.refusedIds.some((id) => text.includes(id)))
      return exception(117, "Cannot parse input: expected a column", 400);
    const token = received.query.get("insert_deduplication_token")!;
    const lines = text.split("\n").filter((line) => line !== "");
    if (!tokens.has(token)) stored.push(...lines.map((line) => JSON.parse(line) as ClickhouseRow));
    tokens.add(token);
    return { status: 200, body: "" };
  }

  const server = await startServer((received) => ({
    ...answer(received),
    headers: HEADERS,
  }));
  return {
    server,
    state,
    rows: () => stored,
    inserts: () => inserts,
    /** Every request fails with this code until `normal`. */
    fail: (code: number, words: string) => server.answerAll(exception(code, words, 500)),
    /** Every request gets a 200 with this body until `normal`, and stores nothing. */
    late: (body: string) => server.answerAll({ status: 200, headers: HEADERS, body }),
  };
}

const HEADERS = {
  "x-clickhouse-query-id": "6f1d2c1e-0000-4000-8000-000000000000",
  "x-clickhouse-timezone": "UTC",
};

const COLUMNS = ["time", "identity", "account", "organization", "service", "event_type", "event"];

function exception(code: number, words: string, status: number): Reply {
  return { status, body: `Code: ${code}. DB::Exception: ${words}. (version 25.8)\n` };
}
