import { askForToken } from "./token-dialog.js";

const KEY = "tidemark.search-token";
const PAGE_KEY = "tidemark.token";

/** The token of this page, or the one of the status page in the same tab. */
function token() {
  return sessionStorage.getItem(KEY) ?? sessionStorage.getItem(PAGE_KEY);
}

/** Asks the server; when it wants a token, asks the person for one and tries again. */
export async function ask(path, signal) {
  for (;;) {
    const used = token();
    const response = await fetch(path, {
      headers: used === null ? {} : { authorization: `Bearer ${used}` },
      credentials: "omit",
      cache: "no-store",
      signal,
    });
    const body = await response.json().catch(() => ({}));
    if (response.ok) return body;
    const message = body.message ?? body.error?.message ?? `The server answered ${response.status}.`;
    const isAccess = response.status === 401 || response.status === 403;
    if (!isAccess || !(await askForToken(KEY, used === null ? message : `${message} Try another token.`)))
      throw new Error(message);
  }
}
