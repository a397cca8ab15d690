import { randomBytes } from "node:crypto";
import type { Effect } from "../../core/effect.ts";
import type { JournalEvent } from "../../core/event.ts";
import { type Describe, type Described, JUDGES, type Meaning } from "../../core/meaning.ts";
import { FIRST_LIST, type RecipePart } from "../../core/recipe-engine.ts";

/** A list of the output as text, and the number by which recipes name it. */
export interface ListText {
  readonly list: number;
  readonly text: string;
}

type Lists = Pick<Meaning, "effects" | "privileges" | "judge">;

/**
 * The effects and the privileges of changes. There are too many combinations to learn a recipe for each, and formats
 * write both lists as they are. So a recipe says where a list goes, and the texts are kept for themselves.
 */
export function createLists(describe: Describe) {
  const [effect, privilege] = [wordOf(), wordOf()];
  let marked: Lists | undefined;
  return {
    /** As `describe`, with a word at the end of each list that shows where it goes in the output. */
    describeMarked(event: JournalEvent): Described {
      const described = describe(event);
      const { effects, privileges, judge } = described.meaning;
      marked = judge && { effects: ended(effects, effect), privileges: ended(privileges, privilege), judge };
      return marked ? { ...described, meaning: { ...described.meaning, ...marked } } : described;
    },

    /** What stands for the lists in the output for the event that was described last. */
    markers(): (readonly [string, RecipePart])[] {
      return textsOf(marked).map(({ list, text }) => [text, { kind: "special", index: list }]);
    },

    textsFor: (event: JournalEvent): readonly ListText[] => textsOf(describe(event).meaning),
  };
}

/** Occurs nowhere else. It takes the place of an effect. */
function wordOf(): Effect {
  return randomBytes(12).toString("hex") as Effect;
}

/** An empty list stays: formats leave it out. */
function ended<Item>(list: readonly Item[], word: Item): readonly Item[] {
  return list.length === 0 ? list : [...list, word];
}

function textsOf(lists: Lists | undefined): ListText[] {
  if (lists?.judge === undefined) return [];
  const { effects, privileges, judge } = lists;
  const first = FIRST_LIST + 2 * JUDGES.indexOf(judge);
  return [effects, privileges].flatMap((items, at) =>
    items.length === 0 ? [] : [{ list: first + at, text: JSON.stringify(items) }],
  );
}
