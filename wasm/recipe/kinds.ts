/** Kinds of declared paths: how converters read the value. `KINDS` in src/core/recipe-engine.ts names them. */
export const DECIDES: u32 = 1;
export const COPIED: u32 = 2;
export const COMPARED: u32 = 3;
export const EMAIL: u32 = 4;
export const ADDRESS: u32 = 5;
export const LATITUDE: u32 = 6;
export const TIME: u32 = 7;
export const URL: u32 = 8;
export const CHANGES: u32 = 9;
/**
 * Names of changed fields that converters know: that it changed counts; whether it was switched on or off; which of two
 * ranked words is higher; which word it is now; the entry; the entry in its place. The number of their effects is in the bits above the mask.
 */
export const NAME_ALWAYS: u32 = 10;
export const NAME_SWITCH: u32 = 17;
export const NAME_RANK: u32 = 18;
/** As NAME_SWITCH, and it is listed in the output, in the order of the changes. */
export const NAME_LISTED: u32 = 19;
export const NAME_WORDS: u32 = 20;
export const NAME_ENTRY: u32 = 12;
export const NAME_ORDERED: u32 = 13;
export const NAME_MASK: u32 = 255;
/** The type of the event; it decides, also whether `changes` does. */
export const EVENT_TYPE: u32 = 14;
export const KIND_MASK: u32 = 31;
export const LONGITUDE: u32 = 15;
export const NUMBER: u32 = 16;
/** Added to a kind: members of an object at this path are declared too. */
export const HAS_MEMBERS: u32 = 32;
/** Added to a kind: the member at this path is a group, see groups.ts. */
export const GROUP: u32 = 64;
/** The kind of a slice that is a run of members at undeclared paths. */
export const RUN: u32 = 11;
