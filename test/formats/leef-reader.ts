/** Six header fields, then pairs between tabs, each cut at its first `=`. */
export function readLeef(line: string): { header: string[]; attributes: Map<string, string> } {
  const fields = line.split("|");
  const attributes = new Map<string, string>();
  for (const pair of fields.slice(6).join("|").split("\t")) {
    const at = pair.indexOf("=");
    if (at < 1 || attributes.has(pair.slice(0, at))) throw new Error(`not a pair: ${pair}`);
    attributes.set(pair.slice(0, at), pair.slice(at + 1));
  }
  return { header: fields.slice(0, 6), attributes };
}
