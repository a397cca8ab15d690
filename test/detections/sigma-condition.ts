/*
 * The condition of a Sigma detection: names of selections with and, or, not, parentheses, `1 of x*`,
 * `all of x*`, `1 of them`, `all of them`. Everything else throws.
 */

export type Expression = (isTrue: (selection: string) => boolean) => boolean;

export function conditionOf(source: string, selections: readonly string[]): Expression {
  const tokens = source.match(/[()]|[^\s()]+/g) ?? [];
  let at = 0;
  const used = new Set<string>();

  function or(): Expression {
    const parts = [and()];
    while (tokens[at] === "or") {
      at++;
      parts.push(and());
    }
    return (isTrue) => parts.some((part) => part(isTrue));
  }

  function and(): Expression {
    const parts = [not()];
    while (tokens[at] === "and") {
      at++;
      parts.push(not());
    }
    return (isTrue) => parts.every((part) => part(isTrue));
  }

  function not(): Expression {
    if (tokens[at] !== "not") return primary();
    at++;
    const inner = not();
    return (isTrue) => !inner(isTrue);
  }

  function primary(): Expression {
    const token = tokens[at++];
    if (token === "(") {
      const inner = or();
      if (tokens[at++] !== ")") throw new Error(`a parenthesis is not closed: ${source}`);
      return inner;
    }
    if ((token === "1" || token === "all") && tokens[at] === "of") {
      const names = namesOf(tokens[at + 1]);
      at += 2;
      return (isTrue) => (token === "1" ? names.some(isTrue) : names.every(isTrue));
    }
    if (token === undefined || !selections.includes(token)) throw new Error(`not a selection: ${token}`);
    used.add(token);
    return (isTrue) => isTrue(token);
  }

  function namesOf(word: string | undefined): readonly string[] {
    if (word === undefined || !/^(them|[A-Za-z_]\w*\*?)$/.test(word))
      throw new Error(`not selections: ${word}`);
    const prefix = word.replace(/\*$/, "");
    const names =
      word === "them"
        ? selections.filter((name) => !name.startsWith("_"))
        : selections.filter((name) => (word === prefix ? name === word : name.startsWith(prefix)));
    if (names.length === 0) throw new Error(`no selection is called ${word}`);
    for (const name of names) used.add(name);
    return names;
  }

  const expression = or();
  if (at < tokens.length) throw new Error(`the condition does not end: ${tokens.slice(at).join(" ")}`);
  const unused = selections.filter((name) => !used.has(name));
  if (unused.length > 0) throw new Error(`selections without use: ${unused.join(", ")}`);
  return expression;
}
