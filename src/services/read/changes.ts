import { type Carried, type Fields, isFields, text } from "../../core/meaning.ts";

/** One changed value. `path` has the names of nested objects, such as `mfa.exclusion`. */
export interface FieldChange {
  readonly path: string;
  readonly from: unknown;
  readonly to: unknown;
  /** The new value as text, to be carried; undefined where it is neither text nor number. */
  readonly toText: Carried | undefined;
}

const CHANGES_MAX = 200;
const DEPTH_MAX = 3;

/** The entries of `changes`. A change of an object is given as the changes of its members. */
export function changesOf(list: readonly unknown[] | undefined): FieldChange[] {
  const found: FieldChange[] = [];
  for (const entry of list ?? []) {
    if (isFields(entry) && typeof entry.field === "string")
      expand(entry.field, entry.from, entry.to, entry, "to", 0, found);
  }
  return found;
}

function expand(
  path: string,
  from: unknown,
  to: unknown,
  holder: Fields,
  key: string,
  depth: number,
  found: FieldChange[],
): void {
  if (found.length >= CHANGES_MAX) return;
  if (!isFields(to) || depth >= DEPTH_MAX) {
    found.push({ path, from, to, toText: text(holder, key)?.value });
    return;
  }
  const before = isFields(from) ? from : {};
  for (const name in to) expand(`${path}.${name}`, before[name], to[name], to, name, depth + 1, found);
}
