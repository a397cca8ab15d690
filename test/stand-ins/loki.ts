import { type Received, type Reply, startServer } from "./server.ts";

interface Stream {
  readonly stream: Readonly<Record<string, string>>;
  readonly values: readonly (readonly [string, string, Readonly<Record<string, string>>])[];
}

/**
 * A stand-in for Loki's push API, written from its documentation: 204 for a push that is taken, 400 with plain
 * words otherwise, and a line with the same stream, time and content as another is stored once.
 */
export async function startLoki(options: { readonly login: string; readonly tenant: string }) {
  const state = {
    login: options.login,
    refusedIds: [] as readonly string[],
    linesMax: Number.POSITIVE_INFINITY,
  };
  const lines: string[] = [];
  const seen = new Set<string>();

  function answer({ headers, body, path }: Received): Reply {
    if (path !== "/loki/api/v1/push") return { status: 404 };
    const expected = `Basic ${Buffer.from(state.login).toString("base64")}`;
    if (headers.authorization !== expected || headers["x-scope-orgid"] !== options.tenant)
      return { status: 401, body: "no org id" };
    const { streams } = JSON.parse(body.toString()) as { streams: readonly Stream[] };
    if (streams.length === 0)
      return { status: 422, body: "error at least one valid stream is required for ingestion" };
    const values = streams.flatMap(({ stream, values: own }) => own.map((value) => ({ stream, value })));
    if (values.length > state.linesMax) return { status: 413, body: "request body too large" };
    if (values.some(({ value }) => state.refusedIds.some((id) => value[1].includes(id))))
      return { status: 400, body: "entry for stream has an error" };
    for (const { stream, value } of values) {
      if (typeof value[0] !== "string") return { status: 400, body: "timestamps are strings" };
      const key = JSON.stringify([stream, value[0], value[1]]);
      if (!seen.has(key)) lines.push(value[1]);
      seen.add(key);
    }
    return { status: 204 };
  }

  return { server: await startServer(answer), state, lines: () => lines };
}
