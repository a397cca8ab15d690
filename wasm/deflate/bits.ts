import { OUTPUT } from "./memory";

/* What is not yet a whole byte, and where the next byte goes. A chunk's last bits wait for the next chunk. */
export let bits: u64 = 0;
export let count: u64 = 0;
export let at: usize = OUTPUT;

export function setBits(newBits: u64, newCount: u64, newAt: usize): void {
  bits = newBits;
  count = newCount;
  at = newAt;
}

/** Up to 16 bits. */
export function put(value: u32, length: u32): void {
  bits |= (<u64>value) << count;
  count += <u64>length;
  store<u64>(at, bits);
  at += <usize>(count >> 3);
  bits >>= count & 56;
  count &= 7;
}

/** Fills the last byte. */
export function finish(): void {
  if (count > 0) put(0, 8 - <u32>count);
}
