import type { RecipeEngine, RecipePart } from "../../core/recipe-engine.ts";
import { type Factors, type Insertion, type OutputToken, partOf } from "./factors.ts";

/** When there are more of one kind, all is forgotten. */
const TEMPLATES_MAX = 3072;
const FAMILIES_MAX = 256;
/** Of one family; others are learned with their events. The engine has so many numbers for them. */
const VARIANTS_MAX = 64;
/** Ways to cut an added text that are tried. */
const OFFSETS_MAX = 64;

/** Texts that groups of one variant add, one for each place of a template. */
type Texts = readonly (readonly OutputToken[])[];

/** What groups add to templates that take the same texts, by their variant. */
interface Family {
  readonly number: number;
  readonly added: Map<string, { readonly texts: Texts; readonly number: number }>;
}

/** Where groups add text: in the gap between two markers, so far behind the first one. */
interface TextPlace {
  readonly gap: number;
  readonly offset: number;
}

interface Template {
  readonly places: readonly TextPlace[];
  readonly family: Family;
}

/**
 * Makes recipes of two halves that were learned from different events: a template for the event without its groups,
 * and the texts that its groups add. Without it, each combination of an event's kind with a kind of place and of user
 * agent would have to be learned on its own.
 */
export function createComposer(engine: RecipeEngine) {
  /** By the fingerprint without groups. Undefined: the output is not made of two halves. */
  const templates = new Map<string, Template | undefined>();
  let families: Family[] = [];
  let lastNumber = 0;

  /** The last event's output is not made of two halves. */
  function refuse(): void {
    templates.set(engine.mainFingerprint(), undefined);
    engine.add([], { template: 0 });
  }

  function forgetAll(): void {
    templates.clear();
    families = [];
  }

  /** What the engine has already stays: it would be checked again. */
  function addTexts({ number: family, added }: Family, texts: Texts): void {
    const variant = engine.variant();
    const before = added.get(variant);
    const what = { addedTo: family, number: before?.number ?? added.size };
    if (isSame(before?.texts, texts) && engine.has(what)) return;
    added.set(variant, { texts, number: what.number });
    engine.add(
      texts.flatMap((text): RecipePart[] => [...text.map(partOf), { kind: "end" }]),
      what,
    );
  }

  /** A family with the same texts for this variant, or a new one, and the places where its texts begin. */
  function templateFor(insertions: readonly Insertion[]): Template | undefined {
    for (const family of families) {
      const texts = family.added.get(engine.variant())?.texts;
      if (texts?.length !== insertions.length) continue;
      const places = insertions.map((insertion, at) =>
        placeFor(insertion, (tokens) => keyOf(tokens) === keyOf(texts[at]!)),
      );
      if (places.every((place) => place !== undefined)) return { family, places };
    }
    const places = insertions.map((insertion) => usualPlace(insertion));
    if (!places.every((place) => place !== undefined)) return undefined;
    const family: Family = { number: ++lastNumber, added: new Map() };
    families.push(family);
    return { family, places };
  }

  function isFull({ added }: Family): boolean {
    return added.size >= VARIANTS_MAX && !added.has(engine.variant());
  }

  return {
    refuse,

    /** Under what to count the last event until it is learned. Undefined: with its groups. */
    counted(): string | undefined {
      const main = engine.mainFingerprint();
      if (!templates.has(main)) return main;
      return templates.get(main) && `${main}/${engine.variant()}`;
    },

    /** Learns from the last event. False if it has to be learned as a whole. */
    learn(factors: Factors | undefined): boolean {
      if (templates.size >= TEMPLATES_MAX || families.length >= FAMILIES_MAX) forgetAll();
      const main = engine.mainFingerprint();
      const known = templates.get(main);
      if (known === undefined && templates.has(main)) return false;
      const template = known ?? (factors && templateFor(factors.insertions));
      if (factors === undefined || template === undefined) {
        refuse();
        return false;
      }
      const texts = textsAt(template.places, factors.insertions);
      if (texts === undefined || isFull(template.family)) return false;
      templates.set(main, template);
      const what = { template: template.family.number };
      if (known === undefined || !engine.has(what)) engine.add(partsOf(factors, template.places), what);
      addTexts(template.family, texts);
      return true;
    },
  };
}

/** Outputs contain no raw zero bytes. */
function keyOf(tokens: readonly OutputToken[]): string {
  return tokens.map((token) => `${typeof token}\0${token}`).join("\0");
}

function isSame(before: Texts | undefined, texts: Texts): boolean {
  return before?.length === texts.length && texts.every((text, at) => keyOf(text) === keyOf(before[at]!));
}

/** The first place to begin where the added text is as wanted. */
function placeFor(
  { gap, low, high, tokensAt }: Insertion,
  isWanted: (tokens: readonly OutputToken[]) => boolean,
): TextPlace | undefined {
  for (let offset = low; offset <= Math.min(high, low + OFFSETS_MAX); offset++) {
    const tokens = tokensAt(offset);
    if (tokens !== undefined && isWanted(tokens)) return { gap, offset };
  }
  return undefined;
}

/** The end of the member before is a place where most groups can add their text. */
function usualPlace(insertion: Insertion): TextPlace | undefined {
  const isBehindMember = ([first]: readonly OutputToken[]) =>
    typeof first === "string" && /^[,}\]]/.test(first);
  return placeFor(insertion, isBehindMember) ?? placeFor(insertion, () => true);
}

/** The added texts for these places. Undefined if one does not begin there, or is somewhere else. */
function textsAt(places: readonly TextPlace[], insertions: readonly Insertion[]): Texts | undefined {
  if (!insertions.every(({ gap }) => places.some((place) => place.gap === gap))) return undefined;
  const texts = places.map(({ gap, offset }) => {
    const insertion = insertions.find((each) => each.gap === gap);
    if (insertion === undefined) return [];
    return insertion.low <= offset && offset <= insertion.high ? insertion.tokensAt(offset) : undefined;
  });
  return texts.every((text) => text !== undefined) ? texts : undefined;
}

function partsOf({ gaps, markers }: Factors, places: readonly TextPlace[]): RecipePart[] {
  const parts: RecipePart[] = [];
  const take = (token: OutputToken | undefined) => {
    if (token !== undefined && token !== "") parts.push(partOf(token));
  };
  gaps.forEach((text, gap) => {
    const place = places.find((each) => each.gap === gap);
    take(text.slice(0, place?.offset));
    if (place !== undefined) {
      parts.push({ kind: "insert" });
      take(text.slice(place.offset));
    }
    take(markers[gap]);
  });
  return parts;
}
