import { askForToken } from "./token-dialog.js";

const KEY = "tidemark.token";
let asking = null;

/** A refusal by the server, with its message. */
export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

function headers() {
  const token = sessionStorage.getItem(KEY);
  return token === null ? {} : { authorization: `Bearer ${token}` };
}

/** Sends a request; when the server wants a token, asks the person for one and tries again. */
export async function request(path, options = {}) {
  for (;;) {
    const used = sessionStorage.getItem(KEY);
    const response = await fetch(path, {
      ...options,
      headers: { ...headers(), ...options.headers },
      credentials: "omit",
      cache: "no-store",
    });
    if (response.ok) return response;
    const body = await response.json().catch(() => ({}));
    const message = body.error?.message ?? `The server answered ${response.status}.`;
    const needsOther = response.status === 401 || (response.status === 403 && /only read/.test(message));
    if (!needsOther) throw new Refusal(response.status, message);
    // Several requests may be refused at once; ask only once.
    if (sessionStorage.getItem(KEY) === used) {
      asking ??= askForToken(KEY, wordsFor(message)).finally(() => {
        asking = null;
      });
      if (!(await asking)) throw new Refusal(response.status, message);
    }
  }
}

export const get = async (path) => (await request(path)).json();

export async function send(method, path, body) {
  const response = await request(path, {
    method,
    ...(body === undefined
      ? {}
      : { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
  });
  return response.json();
}

const WORDS = [
  [/is needed/, "This page needs the token of the server."],
  [/is wrong/, "That token is wrong. Try another."],
  [/only read/, "That token may only read. Changes need the other token."],
];
const wordsFor = (message) => WORDS.find(([pattern]) => pattern.test(message))?.[1] ?? message;

/** Without a message for this long the process is taken for gone: it sends one every two seconds. */
const SILENCE_MS_MAX = 15_000;

/**
 * The live stream. It is read by fetch, because EventSource cannot send a token. It reconnects for as long as
 * the page is open.
 * @param {Record<string, (body: unknown) => void>} listeners by event
 * @param {(state: "live" | "lost" | "refused" | "stopped") => void} onState
 */
export async function follow(listeners, onState) {
  for (let waitMs = 1000; ; waitMs = Math.min(waitMs * 2, 15_000)) {
    let end = "lost";
    const silence = new AbortController();
    try {
      const response = await request("/api/events", { signal: silence.signal });
      onState("live");
      waitMs = 1000;
      let timer = setTimeout(() => silence.abort(), SILENCE_MS_MAX);
      for await (const [event, body] of messages(response.body)) {
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE_MS_MAX);
        if (event === "stopping") end = "stopped";
        listeners[event]?.(body);
      }
      clearTimeout(timer);
    } catch (error) {
      if (error instanceof Refusal && (error.status === 401 || error.status === 403)) {
        onState("refused");
        return;
      }
    }
    onState(end);
    await new Promise((resolve) => setTimeout(resolve, waitMs));
  }
}

async function* messages(stream) {
  const decoder = new TextDecoder();
  const reader = stream.getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    const parts = text.split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const event = /^event: (.+)$/m.exec(part)?.[1];
      const data = /^data: (.+)$/m.exec(part)?.[1];
      if (event !== undefined && data !== undefined) yield [event, JSON.parse(data)];
    }
  }
}
