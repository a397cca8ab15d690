import { type Reply, startServer } from "./server.ts";

const BODY_BYTES_MAX = 1_000_000;
const MESSAGE_BYTES_MAX = 65_536;

/**
 * A stand-in for an HTTP source of Sumo Logic, after its documentation: one message per line, 200 for what
 * was taken, 401 for an unknown address, 429 for throttling; a longer message is cut into several.
 */
export async function startSumo(options: { token: string }) {
  const messages: string[] = [];
  const state = { token: options.token, isThrottling: false, messagesMax: Number.POSITIVE_INFINITY };

  const server = await startServer((received): Reply => {
    if (received.path !== `/receiver/v1/http/${state.token}`)
      return { status: 401, body: { status: 401, code: "unauthorized", message: "Invalid URL token" } };
    if (state.isThrottling)
      return { status: 429, headers: { "retry-after": "2" }, body: { status: 429, code: "throttled" } };
    const lines = received.body
      .toString()
      .split("\n")
      .filter((line) => line !== "");
    if (received.body.length > BODY_BYTES_MAX || lines.length > state.messagesMax) return { status: 413 };
    for (const line of lines) messages.push(...piecesOf(line));
    return { status: 200, body: "" };
  });

  return { server, state, messages: () => messages };
}

function piecesOf(line: string): string[] {
  const bytes = Buffer.from(line);
  const pieces: string[] = [];
  for (let at = 0; at < bytes.length; at += MESSAGE_BYTES_MAX)
    pieces.push(bytes.subarray(at, at + MESSAGE_BYTES_MAX).toString());
  return pieces;
}
