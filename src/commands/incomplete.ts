import type { MayBeIncomplete } from "../core/view/fields.ts";
import type { Io } from "./io.ts";

/**
 * Says what answers of a cluster lack. What is not in a list cannot be told from what does not exist, so the exit code
 * is 1: a script must notice.
 */
export function sayIncomplete(io: Io, ...answers: readonly MayBeIncomplete[]): boolean {
  const texts = new Set(answers.flatMap(({ incomplete }) => (incomplete === undefined ? [] : [incomplete])));
  for (const text of texts)
    io.stderr.write(`This is not complete: ${text}. \`tidemark cluster status\` shows the lanes.\n`);
  if (texts.size > 0) io.setExitCode(1);
  return texts.size > 0;
}
