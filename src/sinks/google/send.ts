import type { Tokens } from "../../core/http/client-credentials.ts";
import type { Answer, Outgoing, Requester } from "../../core/http/requester.ts";
import { jsonOf, saying } from "../over-http/status.ts";

/** Sends with a token; one that was revoked before it expired is replaced once. */
export async function sendWithToken(
  requester: Requester,
  tokens: Tokens,
  outgoing: Outgoing,
  signal: AbortSignal,
): Promise<Answer> {
  const ask = async (token: string) =>
    requester.send(
      { ...outgoing, headers: { ...outgoing.headers, authorization: `Bearer ${token}` } },
      signal,
    );
  const token = await tokens.get(signal);
  const answer = await ask(token);
  if (answer.status !== 401) return answer;
  tokens.forget(token);
  return ask(await tokens.get(signal));
}

/** The words of an error of Google's APIs. */
export function googleWords(answer: Answer): string | undefined {
  const { status, message } = (jsonOf(answer)?.error ?? {}) as Record<string, unknown>;
  return saying(status, message);
}
