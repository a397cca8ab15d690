import { BlockList, isIP } from "node:net";

/*
 * One field of a Sigma detection: `name|modifier|modifier: value or list of values`. Text is compared without
 * case, `*` and `?` are wildcards unless escaped. Everything that is not understood throws.
 */

type Scalar = string | number | boolean | null;
export type Matcher = (values: readonly unknown[]) => boolean;

const COMPARISONS: Readonly<Record<string, (a: number, b: number) => boolean>> = {
  gt: (a, b) => a > b,
  gte: (a, b) => a >= b,
  lt: (a, b) => a < b,
  lte: (a, b) => a <= b,
};

/** `isExact`: the field holds words of ours, which have to match in their case too. */
export function matcherOf(modifiers: readonly string[], value: unknown, isExact: boolean): Matcher {
  const rest = modifiers.filter((modifier) => modifier !== "all");
  const isAll = rest.length < modifiers.length;
  const [kind = "equals", ...more] = rest;
  if (more.length > 0) throw new Error(`modifiers that do not combine: ${modifiers.join("|")}`);
  const wanted = Array.isArray(value) ? (value as unknown[]) : [value];
  if (wanted.length === 0) throw new Error("an empty list of values");
  if (isAll && wanted.length < 2) throw new Error("`all` needs a list");
  const each = wanted.map((one) => single(kind, scalar(one), isExact));
  return (values) => (isAll ? each.every((match) => match(values)) : each.some((match) => match(values)));
}

function scalar(value: unknown): Scalar {
  if (value === null || ["string", "number", "boolean"].includes(typeof value)) return value as Scalar;
  throw new Error(`a value that is no scalar: ${JSON.stringify(value)}`);
}

function single(kind: string, wanted: Scalar, isExact: boolean): Matcher {
  switch (kind) {
    case "exists":
      if (typeof wanted !== "boolean") throw new Error("`exists` takes true or false");
      return (values) => values.length > 0 === wanted;
    case "equals":
      return equals(wanted, isExact);
    case "contains":
      return matching(new RegExp(`^.*${pattern(text(wanted))}.*$`, "is"));
    case "startswith":
      return matching(new RegExp(`^${pattern(text(wanted))}.*$`, "is"));
    case "endswith":
      return matching(new RegExp(`^.*${pattern(text(wanted))}$`, "is"));
    case "re":
      return matching(new RegExp(text(wanted), "s"));
    case "cidr":
      return inside(text(wanted));
    default:
      return compared(kind, wanted);
  }
}

function equals(wanted: Scalar, isExact: boolean): Matcher {
  if (wanted === null) return (values) => values.length === 0;
  if (typeof wanted !== "string") return (values) => values.includes(wanted);
  return matching(new RegExp(`^${pattern(wanted)}$`, isExact ? "s" : "is"));
}

function compared(kind: string, wanted: Scalar): Matcher {
  const comparison = COMPARISONS[kind];
  if (comparison === undefined) throw new Error(`an unknown modifier: ${kind}`);
  if (typeof wanted !== "number") throw new Error(`${kind} takes a number`);
  return (values) => values.some((value) => typeof value === "number" && comparison(value, wanted));
}

function matching(expression: RegExp): Matcher {
  return (values) => values.some((value) => typeof value === "string" && expression.test(value));
}

function text(value: Scalar): string {
  if (typeof value === "string" && value !== "") return value;
  throw new Error(`not a text: ${value}`);
}

function inside(network: string): Matcher {
  const [address = "", bits = ""] = network.split("/");
  const version = isIP(address);
  if (version === 0 || !/^\d+$/.test(bits)) throw new Error(`not a network: ${network}`);
  const list = new BlockList();
  list.addSubnet(address, Number(bits), version === 4 ? "ipv4" : "ipv6");
  return (values) =>
    values.some((value) => {
      const of = typeof value === "string" ? isIP(value) : 0;
      return of === version && list.check(value as string, of === 4 ? "ipv4" : "ipv6");
    });
}

/** Wildcards to a regular expression. A backslash makes the next wildcard or backslash plain. */
function pattern(value: string): string {
  let out = "";
  for (let at = 0; at < value.length; at++) {
    const letter = value[at]!;
    const next = value[at + 1];
    if (letter === "\\" && next !== undefined && "*?\\".includes(next)) {
      out += `\\${next}`;
      at++;
    } else if (letter === "*") out += ".*";
    else if (letter === "?") out += ".";
    else out += letter.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  }
  return out;
}
