const HIDDEN = "[secret]";
/** A shorter secret would hide ordinary words. */
const SECRET_LENGTH_MIN = 4;
/** The characters of a piece of base64 that must match; fewer occur by chance. */
const CORE_LENGTH_MIN = 6;

/**
 * Returns a function that replaces the secrets in a text, in every encoding in which a server may repeat them:
 * as they are, escaped in JSON or HTML, percent-encoded, and in base64 and base64url, also as a part of a longer
 * encoded text such as `user:password`. With `keepsLength` the text stays as long as it was, for binary messages.
 */
export function secretHider(
  secrets: readonly string[],
  { keepsLength = false } = {},
): (text: string) => string {
  const forms = new Set(secrets.filter(({ length }) => length >= SECRET_LENGTH_MIN).flatMap(formsOf));
  // The longest first: a secret may contain another one.
  const ordered = [...forms].toSorted((a, b) => b.length - a.length);
  if (ordered.length === 0) return (text) => text;
  const pattern = new RegExp(ordered.map(escapePattern).join("|"), "g");
  return (text) => text.replace(pattern, (found) => (keepsLength ? "*".repeat(found.length) : HIDDEN));
}

function formsOf(secret: string): string[] {
  const escaped = JSON.stringify(secret).slice(1, -1);
  const percent = percentEncode(secret);
  return [
    secret,
    escaped,
    escaped.replaceAll("/", "\\/"),
    // As Go writes JSON.
    escaped.replaceAll(/[<>&]/g, (sign) => `\\u00${hexOf(sign)}`),
    ...htmlForms(secret),
    percent,
    percent.replaceAll(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
    percent.replaceAll("%20", "+"),
    encodeURIComponent(wellFormed(secret)),
    encodeURI(wellFormed(secret)),
    ...base64Forms(secret),
  ];
}

const NAMED: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const hexOf = (sign: string) => sign.charCodeAt(0).toString(16);

/** Libraries name quotes differently, and some write the slash and other signs as numbers. */
function htmlForms(secret: string): string[] {
  const named = secret.replaceAll(/[&<>"]/g, (sign) => NAMED[sign]!);
  const bare = secret.replaceAll(/[&<>]/g, (sign) => NAMED[sign]!);
  const decimal = (text: string) => text.replaceAll(/['"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
  const quoted = [named, bare, decimal(named), decimal(bare), named.replaceAll("'", "&apos;")];
  const hexadecimal = named.replaceAll(/['`=/]/g, (sign) => `&#x${hexOf(sign)};`);
  return [
    ...quoted,
    ...quoted.map((text) => text.replaceAll("/", "&#x2F;")),
    hexadecimal,
    hexadecimal.replaceAll(/&#x[0-9a-f]{2};/g, (code) => code.toUpperCase().replace("X", "x")),
  ];
}

/** The URI functions throw for half of a surrogate pair. */
function wellFormed(text: string): string {
  return Buffer.from(text).toString();
}

/** encodeURIComponent leaves a few characters as they are which others encode. */
function percentEncode(text: string): string {
  return encodeURIComponent(wellFormed(text)).replaceAll(
    /[!'()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/**
 * Three bytes become four characters, so the characters depend on how many bytes come before the secret. For
 * each of the three cases: those characters that depend on the secret alone.
 */
function base64Forms(secret: string): string[] {
  const bytes = Buffer.from(secret);
  const forms: string[] = [];
  for (const before of [0, 1, 2]) {
    const encoded = Buffer.concat([Buffer.alloc(before), bytes]).toString("base64");
    const start = before === 0 ? 0 : before + 1;
    const end = Math.floor(((before + bytes.length) * 8) / 6);
    const core = encoded.slice(start, end);
    if (core.length >= CORE_LENGTH_MIN) forms.push(core, core.replaceAll("+", "-").replaceAll("/", "_"));
  }
  return forms;
}

function escapePattern(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
