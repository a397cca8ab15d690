/** Cuts JSON text into the slices of its values without changing a byte, so that tests can compare bytes. */

/** The slices of JSON values written one after the other, with or without white space between them. */
export function valueSlices(text: string): string[] {
  const slices: string[] = [];
  for (let at = skipSpace(text, 0); at < text.length; ) {
    const end = valueEnd(text, at);
    slices.push(text.slice(at, end));
    at = skipSpace(text, end);
  }
  return slices;
}

/** The slices of an array's elements. */
export function elementSlices(text: string): string[] {
  const slices: string[] = [];
  let at = skipSpace(text, expect(text, skipSpace(text, 0), "["));
  while (text[at] !== "]") {
    const end = valueEnd(text, at);
    slices.push(text.slice(at, end));
    at = skipSpace(text, end);
    if (text[at] === ",") at = skipSpace(text, at + 1);
  }
  return slices;
}

/** The slices of an object's values by their keys. */
export function memberSlices(text: string): Map<string, string> {
  const members = new Map<string, string>();
  let at = skipSpace(text, expect(text, skipSpace(text, 0), "{"));
  while (text[at] !== "}") {
    const keyEnd = valueEnd(text, at);
    const key = JSON.parse(text.slice(at, keyEnd)) as string;
    const start = skipSpace(text, expect(text, skipSpace(text, keyEnd), ":"));
    const end = valueEnd(text, start);
    members.set(key, text.slice(start, end));
    at = skipSpace(text, end);
    if (text[at] === ",") at = skipSpace(text, at + 1);
  }
  return members;
}

function valueEnd(text: string, start: number): number {
  const first = text[start];
  if (first === '"') return stringEnd(text, start);
  if (first !== "{" && first !== "[") {
    let end = start;
    while (end < text.length && !/[\s,\]}{[]/.test(text[end]!)) end++;
    if (end === start) throw new Error(`no JSON value at ${start}`);
    return end;
  }
  for (let at = start, depth = 0; at < text.length; ) {
    const character = text[at]!;
    if (character === '"') {
      at = stringEnd(text, at);
      continue;
    }
    if (character === "{" || character === "[") depth++;
    if (character === "}" || character === "]") depth--;
    at++;
    if (depth === 0) return at;
  }
  throw new Error("a JSON value does not end");
}

function stringEnd(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === '"') return at + 1;
  }
  throw new Error("a JSON string does not end");
}

function skipSpace(text: string, start: number): number {
  let at = start;
  while (at < text.length && /\s/.test(text[at]!)) at++;
  return at;
}

function expect(text: string, at: number, character: string): number {
  if (text[at] !== character) throw new Error(`expected ${character} at ${at}`);
  return at + 1;
}
