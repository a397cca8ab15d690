/**
 * The layout of the memory that this module shares with its caller, src/core/wasm-engine.ts: a stretch of
 * the page's text at the very end, which can grow, and before it what is noted of the events in it.
 */

/** The most events in one stretch of text. */
export const ROWS_MAX: i32 = 512;

/** Numbers of a row: start and end of the event, then of each field's value; -1 where absent. */
export const STRIDE: i32 = 14;
export const ID: i32 = 2;
export const TIMESTAMP: i32 = 4;
export const SERVICE: i32 = 6;
export const EVENT_TYPE: i32 = 8;
export const ORGANIZATION: i32 = 10;
export const CORRELATION: i32 = 12;

/** The longest key that is hashed here, with the end marks of its fields and those of SHA-256. */
export const KEY_BYTES: i32 = 256;
export const OWNER_BYTES: i32 = 128;
export const IDENTITY_BYTES: i32 = 16;
/** A 16-byte step may read so far behind the text; zeros, which no JSON text contains. */
export const PADDING_BYTES: i32 = 32;

export const ROWS: usize = memory.data(ROWS_MAX * STRIDE * 4, 16);
/** When each event happened, in milliseconds; NaN where the caller has to find out. */
export const TIMES: usize = memory.data(ROWS_MAX * 8, 16);
/** The shape of each. */
export const SHAPES: usize = memory.data(ROWS_MAX * 8, 16);
/** A field is copied sixteen bytes at a time: the last may reach a little behind its key. */
export const KEYS: usize = memory.data(ROWS_MAX * KEY_BYTES + 16, 16);
/** Blocks of each key; 0 where the caller has to make the identity. */
export const KEY_BLOCKS: usize = memory.data(ROWS_MAX * 4, 16);
export const IDENTITIES: usize = memory.data(ROWS_MAX * IDENTITY_BYTES, 16);
export const DIGESTS: usize = memory.data(ROWS_MAX * 4, 16);
/** 1 for a row whose organization is that of the row before. */
export const RUNS: usize = memory.data(ROWS_MAX, 16);
export const OWNER: usize = memory.data(OWNER_BYTES, 16);

export const TEXT: usize = (__heap_base + 15) & ~15;
