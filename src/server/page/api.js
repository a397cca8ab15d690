import { byId, say } from "./dom.js";

const KEY = "tidemark.token";
let asking = null;

/** A refusal of the server, with its words. */
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

/** Asks the server; where it wants a token, asks the person for one and tries again. */
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
    // Several requests may be refused at once: one question is enough.
    if (sessionStorage.getItem(KEY) === used) {
      asking ??= askForToken(message).finally(() => {
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
  [/is needed/, "This server shows and changes things only for those who have its token."],
  [/not right/, "That token is not right. Try another."],
  [/only read/, "That token may only read. Changes need the other one."],
];

/** Resolves to false when the person would rather not. */
function askForToken(reason) {
  const dialog = byId("token-dialog");
  const input = byId("token-input");
  say(byId("token-reason"), WORDS.find(([pattern]) => pattern.test(reason))?.[1] ?? reason);
  input.value = "";
  dialog.showModal();
  return new Promise((resolve) => {
    const end = (given) => {
      if (given) sessionStorage.setItem(KEY, input.value.trim());
      input.value = "";
      dialog.close();
      resolve(given);
    };
    byId("token-form").onsubmit = (event) => {
      event.preventDefault();
      end(true);
    };
    byId("token-cancel").onclick = () => end(false);
    dialog.oncancel = () => end(false);
  });
}

/**
 * The live stream. It is read by fetch and not by EventSource, which cannot send a token; it connects again
 * by itself for as long as the page is open.
 * @param {Record<string, (body: unknown) => void>} listeners by event
 * @param {(state: "live" | "lost" | "refused") => void} onState
 */
export async function follow(listeners, onState) {
  for (let waitMs = 1000; ; waitMs = Math.min(waitMs * 2, 15_000)) {
    try {
      const response = await request("/api/events");
      onState("live");
      waitMs = 1000;
      for await (const [event, body] of messages(response.body)) listeners[event]?.(body);
    } catch (error) {
      if (error instanceof Refusal && (error.status === 401 || error.status === 403)) {
        onState("refused");
        return;
      }
    }
    onState("lost");
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
