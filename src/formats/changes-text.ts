import { type Described, decide, isFields } from "../core/meaning.ts";

const VALUE_LENGTH_MAX = 64;
/** Values of these fields are left out unless they are booleans or numbers: they may be secrets. */
const SECRET = /password|secret|key|token|credential/i;

/**
 * The changes of an event as text: `suspended: false -> true, address`. Only short scalars are shown with
 * their values. The others, and those that may be secrets, are shown by name.
 */
export function changesText({ meaning: { changes } }: Described): string | undefined {
  if (changes === undefined) return undefined;
  const texts: string[] = [];
  for (const change of decide(changes)) {
    if (!isFields(change) || typeof change.field !== "string" || change.field === "") continue;
    texts.push(changeText(change.field, change.from, change.to));
  }
  return texts.join(", ");
}

function changeText(field: string, from: unknown, to: unknown): string {
  const before = shown(field, from);
  const after = shown(field, to);
  if (before === undefined || after === undefined) return field;
  if (before === "" && after === "") return field;
  return `${field}: ${before} -> ${after}`;
}

/** "" for an absent value; undefined for one that is not shown. */
function shown(field: string, value: unknown): string | undefined {
  if (value === undefined || value === null) return "";
  if (typeof value === "boolean" || typeof value === "number") return String(value);
  if (typeof value !== "string" || value.length > VALUE_LENGTH_MAX || SECRET.test(field)) return undefined;
  return value;
}
