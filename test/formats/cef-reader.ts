/** Reads a line by the standard: seven header fields, then pairs whose keys end with an unescaped `=`. */
export function readCef(line: string): { header: string[]; extension: Map<string, string> } {
  const header: string[] = [];
  let field = "";
  let at = 0;
  for (; header.length < 7; at++) {
    if (at >= line.length) throw new Error(`the header ends early: ${line}`);
    if (line[at] === "\\") field += line[++at];
    else if (line[at] === "|") {
      header.push(field);
      field = "";
    } else field += line[at];
  }
  const extension = new Map<string, string>();
  const keys = [...line.slice(at).matchAll(/(?:^| )([A-Za-z0-9_]+)=/g)].filter((match) => {
    const equals = at + match.index + match[0].length - 1;
    return line[equals - 1] !== "\\";
  });
  keys.forEach((match, index) => {
    const start = at + match.index + match[0].length;
    const end = index + 1 < keys.length ? at + keys[index + 1]!.index : line.length;
    if (extension.has(match[1]!)) throw new Error(`${match[1]} occurs twice`);
    extension.set(match[1]!, unescaped(line.slice(start, end)));
  });
  return { header, extension };
}

function unescaped(value: string): string {
  return value.replace(/\\(.)/gs, (_, letter: string) => ({ n: "\n", r: "\r" })[letter] ?? letter);
}
