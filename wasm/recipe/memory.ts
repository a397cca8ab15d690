/*
 * The memory that this module shares with its callers, src/core/recipe-engine.ts and record-engine.ts: tables of fixed
 * size, then many converted events, one converted event, the text of events, and the recipes, which can grow.
 */

/** Slices of one event that a recipe may copy. An event with more is converted by the converter. */
export const LEAVES_MAX: i32 = 512;
/** Groups of one event. Members beyond that are read like any other. */
export const GROUPS_MAX: i32 = 4;
/** Nested objects and arrays of one event. */
export const DEPTH_MAX: i32 = 32;
/** Slots of the tables of declared paths and names; a power of two. */
export const PATHS_MAX: i32 = 1024;
/** Slots of the table of recipes; a power of two, twice the number of recipes that are kept. */
export const RECIPE_SLOTS: i32 = 8192;
/** Events that are read at once. */
export const EVENTS_MAX: i32 = 1024;
/** Slots of the table of one event's keys; a power of two. Half of them are used at most. */
export const MARKS_MAX: i32 = 2048;
/** Slots of the table of one event's texts; a power of two. More than twice the paths whose texts are compared. */
export const TEXT_SLOTS: i32 = 1024;

export const SPECIALS_MAX: i32 = 8;
export const SPECIAL_BYTES: i32 = 256;

/** Events that are converted at once, and the numbers of each one's row; src/core/page-scratch.ts has the same stride. */
export const MANY_MAX: i32 = 256;
export const ROW_NUMBERS: i32 = 14;

/** The converter does not parse every event of so many bytes. See src/core/costly.ts. */
export const LARGE_BYTES: i32 = 200_000;
export const TEXT_BYTES: i32 = 1 << 20;
export const OUT_BYTES: i32 = 4 << 20;
/** Copies move 16 bytes at a time and may read and write this far behind their end. */
export const PADDING_BYTES: i32 = 64;

/** Start, length and kind of each slice, without the quotes of a string; 16 bytes each. */
export const LEAVES: usize = memory.data(LEAVES_MAX * 16, 16);
/** Start, end, first slice and number of slices of each group. */
export const GROUPS: usize = memory.data(GROUPS_MAX * 16, 16);
/** Hash of a path or name (8 bytes), kind (4), spare (4). */
export const PATHS: usize = memory.data(PATHS_MAX * 16, 16);
/** Fingerprint (8 bytes), address of the recipe (4), spare (4). */
export const RECIPES: usize = memory.data(RECIPE_SLOTS * 16, 16);
/** The answers of each event; 0 where it cannot be read. */
export const ANSWERS: usize = memory.data(EVENTS_MAX * 8, 16);
/** Texts that were seen in this event: generation (4), ordinal and a mark (4), hash (8). */
export const TEXTS: usize = memory.data(TEXT_SLOTS * 16, 16);
/** Keys that were seen in this event: generation (4), spare (4), hash (8). */
export const KEYS: usize = memory.data(MARKS_MAX * 16, 16);
/** Values that are not in the event's own text: organization, identity, times. */
export const SPECIALS: usize = memory.data(SPECIALS_MAX * SPECIAL_BYTES, 16);
export const SPECIAL_LENGTHS: usize = memory.data(SPECIALS_MAX * 4, 16);

/** Of many events: rows as the scanner makes them, marks of those whose organization is that of the one before. */
export const ROWS: usize = memory.data(EVENTS_MAX * ROW_NUMBERS * 4, 16);
export const RUNS: usize = memory.data(EVENTS_MAX, 16);
/** Where their records begin, and where the last one ends. An event without a record has an empty one. */
export const PLACES: usize = memory.data((EVENTS_MAX + 1) * 4, 16);
/** Of events that are converted: times and identities. */
export const TIMES: usize = memory.data(MANY_MAX * 8, 16);
export const IDENTITIES: usize = memory.data(MANY_MAX * 16, 16);
/** The organization of events that name none. */
export const OTHERWISE: usize = memory.data(SPECIAL_BYTES, 16);
/** Where the converted line of each one ends in OUT; the complement (~) for one that was not converted. */
export const ENDS: usize = memory.data(MANY_MAX * 4, 16);

export const OUT: usize = (__heap_base + 63) & ~63;
export const OUT_ONE: usize = OUT + OUT_BYTES + PADDING_BYTES;
export const TEXT: usize = OUT_ONE + OUT_BYTES + PADDING_BYTES;
/** One event of at most LARGE_BYTES whose numbers were rewritten: an integer in quotes is a ninth longer at most. */
export const REWRITTEN: usize = TEXT + TEXT_BYTES + PADDING_BYTES;
export const HEAP: usize = REWRITTEN + LARGE_BYTES + LARGE_BYTES / 4 + PADDING_BYTES;
