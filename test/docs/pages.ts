import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export const ROOT = join(import.meta.dirname, "../..");

export interface Block {
  readonly page: string;
  readonly line: number;
  /** The text after the fence: a language, and perhaps the purpose of the block. */
  readonly kind: string;
  readonly text: string;
}

/** Every page of the documentation, by its path from the project's root. */
export const pages: ReadonlyMap<string, string> = new Map(
  [
    "README.md",
    ...readdirSync(join(ROOT, "docs"))
      .filter((name) => name.endsWith(".md"))
      .map((name) => `docs/${name}`),
  ].map((page) => [page, readFileSync(join(ROOT, page), "utf8")]),
);

/** The fenced blocks of all pages. */
export const blocks: readonly Block[] = [...pages].flatMap(([page, text]) =>
  [...text.matchAll(/^```(.*)\n([\s\S]*?)^```$/gm)].map((match) => ({
    page,
    line: text.slice(0, match.index).split("\n").length,
    kind: match[1]!,
    text: match[2]!,
  })),
);

/** The text without fenced blocks. */
export function proseOf(text: string): string {
  return text.replace(/^```.*\n[\s\S]*?^```$/gm, "");
}

/** A heading's anchor, as the usual renderers make it. */
export function anchorsOf(text: string): ReadonlySet<string> {
  const headings = [...proseOf(text).matchAll(/^#+ (.*)$/gm)].map(([, heading]) => heading!);
  return new Set(
    headings.map((heading) =>
      heading
        .toLowerCase()
        .replace(/[^\p{L}\p{N} _-]/gu, "")
        .replaceAll(" ", "-"),
    ),
  );
}
