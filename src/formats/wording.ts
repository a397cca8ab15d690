import type { UserAgent } from "../core/meaning.ts";

/** Browser and version of a parsed user agent, such as `Chrome/142.0`. */
export function agentText({ name, version }: UserAgent): string | undefined {
  if (name === undefined) return undefined;
  return version ? `${name.value}/${version.value}` : `${name.value}`;
}

/** The first `max` code points of a text; a surrogate pair is never cut in two. */
export function cut(value: string, max: number): string {
  if (value.length <= max) return value;
  let points = 0;
  let at = 0;
  while (at < value.length && points < max) {
    at += value.codePointAt(at)! > 0xffff ? 2 : 1;
    points++;
  }
  return value.slice(0, at);
}

/** `user_login_attempt` as people write it: `User login attempt`. */
export function caption(eventType: string): string {
  const words = eventType.replace(/[_-]+/g, " ").trim();
  return words === "" ? "Unknown event" : words.charAt(0).toUpperCase() + words.slice(1);
}

const EMAIL = /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]+@[A-Za-z0-9-]+\.[A-Za-z0-9.-]+$/;

export function isEmail(value: string): boolean {
  return EMAIL.test(value);
}

/** Control characters and the other line separators of Unicode become spaces, so that the text stays on its line. */
export function inlineText(value: string): string {
  return value.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, " ");
}
