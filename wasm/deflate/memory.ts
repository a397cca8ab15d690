/** The memory that this module shares with its caller, src/core/deflate.ts, and what its parts share. */

/** Input comes in chunks of at most this size, GZIP_PART_BYTES there. A match never reaches into an earlier one. */
export const CHUNK_BYTES: i32 = 1048576;
/** Each block has Huffman codes of its own. */
export const BLOCK_BYTES: i32 = 1 << 17;

/** Literals and lengths, with the end of the block; then distances. */
export const LITERALS: i32 = 286;
export const DISTANCES: i32 = 30;
/** The longest code that DEFLATE allows. */
export const BITS_MAX: i32 = 15;

/** No byte takes more than nine bits here. Each block has a table of its codes before it. */
export const OUTPUT: usize = memory.data(CHUNK_BYTES + CHUNK_BYTES / 8 + (CHUNK_BYTES / BLOCK_BYTES) * 512 + 64, 16);
/** Behind everything else. The caller makes the memory large enough. */
export const INPUT: usize = (__heap_base + 15) & ~15;

/** How often each symbol occurs in the block, the length of its code, and the code with its length above bit 16. */
export const FREQUENCIES: usize = memory.data((LITERALS + DISTANCES) * 4, 16);
export const LENGTHS: usize = memory.data(LITERALS + DISTANCES, 16);
export const CODES: usize = memory.data((LITERALS + DISTANCES) * 4, 16);
