import { isWebPage } from "../../core/http/confirmed.ts";
import type { Answer } from "../../core/http/requester.ts";
import { jsonOf } from "./status.ts";

/** An object, not an array. */
export function isJsonObject(answer: Answer): boolean {
  const json = jsonOf(answer);
  return json !== undefined && !Array.isArray(json);
}

/** For destinations that confirm by their status: a body that such a destination may send beside it. */
export function isEmptyOrObject(answer: Answer): boolean {
  return !isWebPage(answer) && (answer.text.trim() === "" || isJsonObject(answer));
}
