/**
 * How converters read the value at a path.
 * - decides: the output depends on the whole value
 * - copied: a text or number that is copied
 * - compared: copied, and compared with other such values
 * - email, address: compared, and tested for being an e-mail address or an IP address
 * - number: copied where it is a number, and tested for being whole; a text decides
 * - latitude, longitude: copied, and tested for being in range
 * - time: copied, and tested for being a time in UTC
 * - url: copied, and searched for `/saml`
 * - type: decides, and more than itself: whether the changes decide
 * - changes: a list that is copied; some of its entries decide too, as `changes` of `Reads` says
 */
export type ReadKind =
  | "decides"
  | "copied"
  | "compared"
  | "email"
  | "address"
  | "number"
  | "latitude"
  | "longitude"
  | "time"
  | "url"
  | "type"
  | "changes";

/**
 * How a changed field is read. Effects have names; changes with the same effects are alike.
 * - entry: its values count
 * - ordered: its values count, and its place among the others
 * - always: only that it changed counts
 * - on, off: whether a boolean was switched on or off; with `isListed`, also its place among the others that are listed
 * - words: which of these words, in lower case, the new value is; others count for nothing. There are at most three
 * - higher, lower, other: how the ranks of its old and new value compare; the new value is listed in the order of the
 *   changes
 */
export type ChangeKind =
  | "entry"
  | "ordered"
  | { readonly always: readonly string[] }
  | { readonly words: readonly (readonly [word: string, effects: readonly string[]])[] }
  | { readonly on: readonly string[]; readonly off: readonly string[]; readonly isListed: boolean }
  | {
      readonly higher: readonly string[];
      readonly lower: readonly string[];
      readonly other: readonly string[];
    };

/** Everything that services and formats read of an event. They do not look at any other member. */
export interface Reads {
  /** By path, such as `resource.id`. The value of a parent that is not an object decides. */
  readonly paths: ReadonlyMap<string, ReadKind>;
  /**
   * Members of the event that converters write in the same way whatever the rest of the event is. None of their
   * values is compared with others. What was learned about them serves all events.
   */
  readonly groups: readonly string[];
  readonly changes: {
    /** By the name of the field in lower case, without anything but letters, digits and dots. */
    readonly names: ReadonlyMap<string, ChangeKind>;
    /** The ranks of words in lower case, from 1 on. */
    readonly ranks: ReadonlyMap<string, number>;
    /** The changes decide in events whose type contains one of these words. */
    readonly typeWords: readonly string[];
    /**
     * All effects with their severity: for each kind of judge those from the gravest to the least. Converters write the
     * list of effects and that of privileges as they are. Beyond them, only the first effect counts, and each that is
     * graver than all before it.
     */
    readonly severities: readonly ReadonlyMap<string, number>[];
  };
}
