import { hash } from "node:crypto";
import type { JournalEvent } from "../../core/event.ts";
import { compileTemplate } from "../../core/names.ts";

const NAME_LENGTH_MAX = 249;
const PLACEHOLDERS = ["account", "organization", "service"] as const;

/** Why a template cannot name topics, or undefined. */
export function checkTemplate(template: string): string | undefined {
  try {
    compileTemplate(template, PLACEHOLDERS);
  } catch (error) {
    return (error as Error).message;
  }
  const fixed = template.replaceAll(/\{[^}]*\}/g, "");
  if (template === "" || !/^[a-zA-Z0-9._-]*$/.test(fixed)) {
    return "a topic's name is made of letters, digits, `.`, `_` and `-`";
  }
  if (fixed.length > NAME_LENGTH_MAX) return `a topic's name has at most ${NAME_LENGTH_MAX} characters`;
  return template === "." || template === ".." ? "a topic cannot have this name" : undefined;
}

/**
 * R22 in Kafka's alphabet: `~`, which marks an encoded name's hash, is not allowed, and capitals occur in
 * no encoded name. A name never equals that of the positions topic.
 */
export function topicNamer(template: string, positionsTopic: string): (event: JournalEvent) => string {
  const fill = compileTemplate(template, PLACEHOLDERS);
  if (!template.includes("{")) {
    const fixed = legal(template);
    return () => fixed;
  }
  return (event) => legal(fill(event));

  function legal(filled: string): string {
    const name = filled.replaceAll("~", "Z");
    if (name === positionsTopic) return `${name.slice(0, NAME_LENGTH_MAX - 2)}_X`;
    if (name.length <= NAME_LENGTH_MAX) return name;
    return `${name.slice(0, NAME_LENGTH_MAX - 34)}_Y${hash("sha256", name, "hex").slice(0, 32)}`;
  }
}
