/** Reduces an event's JSON text to some of its fields. */
export type Projection = (json: string) => string;

/**
 * Works on the text, so that numbers and escapes keep their spelling. A dotted path that meets a list applies
 * to each of its items.
 */
export function createProjection(fields: readonly string[]): Projection {
  const tree = buildTree(fields);
  return (json) => project(json, tree, skipSpace(json, 0)).text ?? "{}";
}

interface Tree {
  readonly whole: boolean;
  readonly children: ReadonlyMap<string, Tree>;
}

function buildTree(fields: readonly string[]): Tree {
  const groups = new Map<string, string[]>();
  for (const field of fields) {
    const dot = field.indexOf(".");
    const head = dot === -1 ? field : field.slice(0, dot);
    groups.set(head, [...(groups.get(head) ?? []), dot === -1 ? "" : field.slice(dot + 1)]);
  }
  const children = new Map<string, Tree>();
  for (const [head, rests] of groups) {
    const whole = rests.includes("");
    children.set(head, whole ? { whole, children: new Map() } : buildTree(rests));
  }
  return { whole: false, children };
}

/** The wanted part of the value that begins at `at` (null when there is none), and where the value ends. */
function project(json: string, tree: Tree, at: number): { text: string | null; end: number } {
  if (tree.whole) {
    const end = endOfValue(json, at);
    return { text: json.slice(at, end), end };
  }
  if (json[at] === "{") return projectObject(json, tree, at);
  if (json[at] === "[") return projectArray(json, tree, at);
  return { text: null, end: endOfValue(json, at) };
}

function projectObject(json: string, tree: Tree, start: number): { text: string | null; end: number } {
  const kept: string[] = [];
  let at = skipSpace(json, start + 1);
  while (json[at] !== "}") {
    const keyEnd = endOfValue(json, at);
    const key = json.slice(at, keyEnd);
    const valueAt = skipSpace(json, skipSpace(json, keyEnd) + 1);
    const child = tree.children.get(JSON.parse(key) as string);
    const value =
      child === undefined ? { text: null, end: endOfValue(json, valueAt) } : project(json, child, valueAt);
    if (value.text !== null) kept.push(`${key}:${value.text}`);
    at = afterComma(json, value.end);
  }
  return { text: kept.length === 0 ? null : `{${kept.join(",")}}`, end: at + 1 };
}

function projectArray(json: string, tree: Tree, start: number): { text: string | null; end: number } {
  const kept: string[] = [];
  let at = skipSpace(json, start + 1);
  while (json[at] !== "]") {
    const value = project(json, tree, at);
    if (value.text !== null) kept.push(value.text);
    at = afterComma(json, value.end);
  }
  return { text: kept.length === 0 ? null : `[${kept.join(",")}]`, end: at + 1 };
}

function afterComma(json: string, end: number): number {
  const at = skipSpace(json, end);
  return json[at] === "," ? skipSpace(json, at + 1) : at;
}

function skipSpace(json: string, from: number): number {
  let at = from;
  while (json[at] === " " || json[at] === "\n" || json[at] === "\r" || json[at] === "\t") at++;
  return at;
}

function endOfValue(json: string, start: number): number {
  let depth = 0;
  for (let at = start; at < json.length; at++) {
    const character = json[at];
    if (character === '"') {
      at = endOfString(json, at) - 1;
    } else if (character === "{" || character === "[") {
      depth++;
    } else if (character === "}" || character === "]") {
      if (--depth < 0) return at;
    } else if (depth === 0 && (character === "," || character === ":" || character === " ")) {
      return at;
    }
    if (depth === 0 && (character === '"' || character === "}" || character === "]")) return at + 1;
  }
  return json.length;
}

function endOfString(json: string, start: number): number {
  for (let at = start + 1; ; at++) {
    if (json[at] === "\\") at++;
    else if (json[at] === '"' || at >= json.length) return at + 1;
  }
}
