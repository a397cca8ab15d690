import { askForToken } from "./token-dialog.js";

const KEY = "tidemark.search-token";
const PAGE_KEY = "tidemark.token";

/** The token of this page, or the one of the status page in the same tab. */
function token() {
  return sessionStorage.getItem(KEY) ?? sessionStorage.getItem(PAGE_KEY);
}

/** The token that the server accepted last. */
let accepted;

/**
 * Asks the server; when it wants a token, asks the person for one and tries again. Whether a token is accepted is an
 * answer of its own, because a browser reports every refused request as an error of the page.
 */
export async function ask(path, signal) {
  for (;;) {
    const used = token();
    const refused = used === accepted ? undefined : await refusalOf(used, signal);
    if (refused === undefined) {
      const response = await request(path, used, signal);
      const body = await response.json().catch(() => ({}));
      if (response.ok) return body;
      const message = body.message ?? body.error?.message ?? `The server answered ${response.status}.`;
      if (response.status !== 401 && response.status !== 403) throw new Error(message);
      accepted = undefined;
      await newToken(used, message);
    } else await newToken(used, refused);
  }
}

function request(path, used, signal) {
  const headers = used === null ? {} : { authorization: `Bearer ${used}` };
  return fetch(path, { headers, credentials: "omit", cache: "no-store", signal });
}

/** Why the server does not accept the token; undefined where it does. */
async function refusalOf(used, signal) {
  const response = await request("/api/search/access", used, signal);
  const { mayAsk, message } = await response.json();
  if (!mayAsk) return message;
  accepted = used;
  return undefined;
}

async function newToken(used, message) {
  if (!(await askForToken(KEY, used === null ? message : `${message} Try another token.`)))
    throw new Error(message);
}
