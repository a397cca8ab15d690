/*
 * Groups: members of an event that converters write the same way whatever the rest of the event is, such as the place
 * of a client. A fingerprint has two parts, the groups' variant and all the rest, so that what was learned about each
 * can be put together.
 */
import { mix } from "../hash";
import { GROUPS, GROUPS_MAX } from "./memory";
import { seed } from "./paths";

let groups: i32 = 0;
export let variant: u64 = 0;

export function groupCount(): i32 {
  return groups;
}

/** Forgets the event before. */
// @ts-ignore: decorator
@inline
export function beginGroups(): void {
  groups = 0;
  variant = seed;
}

/** What was found about an event before; the slices of its groups are in GROUPS. */
export function restoreGroups(foundVariant: u64, foundGroups: i32): void {
  variant = foundVariant;
  groups = foundGroups;
}

// @ts-ignore: decorator
@inline
export function hasRoomForGroup(): bool {
  return groups < GROUPS_MAX;
}

/** A group: its first byte, the place behind it, its slices, and the hash of all that converters read of it. */
export function addGroup(start: usize, end: usize, firstLeaf: i32, leaves: i32, hash: u64): void {
  const at = GROUPS + groups * 16;
  store<u32>(at, <u32>start);
  store<u32>(at, <u32>end, 4);
  store<i32>(at, firstLeaf, 8);
  store<i32>(at, leaves, 12);
  groups++;
  variant = mix(variant, hash);
}

/** The slice with this number among those outside of groups. */
export function mainLeaf(number: u32): u32 {
  let leaf = number;
  for (let at = GROUPS; at < GROUPS + groups * 16; at += 16)
    if (load<u32>(at, 8) <= leaf) leaf += load<u32>(at, 12);
  return leaf;
}

/** The slice with this number among those in groups. */
export function groupLeaf(number: u32): u32 {
  let left = number;
  for (let at = GROUPS; at < GROUPS + groups * 16; at += 16) {
    const leaves = load<u32>(at, 12);
    if (left < leaves) return load<u32>(at, 8) + left;
    left -= leaves;
  }
  return 0;
}
