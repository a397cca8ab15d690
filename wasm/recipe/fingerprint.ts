/*
 * The fingerprint of an event: everything that a converter's output depends on, except the slices that it copies. It
 * is made of the answers that walk.ts finds, the variant of the groups, and the account and the provider.
 */
import { layout } from "./answers";
import { groupCount, variant } from "./groups";
import { mix, mixBytes } from "../hash";
import { TEXT } from "./memory";
import { seed } from "./paths";

/** Account and provider: the same for many events, and part of their output. */
let salt: u64 = 0;

/** The text in TEXT becomes part of every fingerprint from now on. */
export function setSalt(length: i32): void {
  salt = mixBytes(seed, TEXT, length);
}

export function fingerprint(): u64 {
  return groupCount() == 0 ? mainFingerprint() : mix(mainFingerprint(), variant);
}

/** The fingerprint without what the groups add to it. */
export function mainFingerprint(): u64 {
  return mix(layout, salt);
}
