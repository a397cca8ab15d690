/*
 * The members that were seen before, by the path of their object and their key. Events of one kind have the same keys
 * in the same order, so each member notes what came behind it. An expected key is found by comparing its bytes: its
 * end need not be searched, nor its hash made and looked up. The scanner and the recipes each have such a table.
 */
import { first } from "./hash";

const MEMBERS_MAX: i32 = 1024;
/** A power of two. */
const MEMBER_SLOTS: i32 = 2048;
/** So many keys are expected at one place. */
const EXPECTED_MAX: i32 = 4;

/** Of a key with its quotes and its colon. Longer ones are looked up each time. */
const KEY_BYTES_MAX: i32 = 32;

/*
 * A member: its key with quotes and colon and zeros behind them (32 bytes), path (8), kind (2), length of the key (2),
 * the event that it was last seen in (4), and the members that are expected behind it (4 each).
 */
const MEMBER_BYTES: i32 = 64;
const PATH: usize = 32;
const KIND: usize = 40;
const LENGTH: usize = 42;
const SEEN: usize = 44;
const FOLLOWING: usize = 48;

const MEMBERS: usize = memory.data(MEMBERS_MAX * MEMBER_BYTES, 64);
/** For each member, those that are expected at the beginning of its object. */
const INNER: usize = memory.data(MEMBERS_MAX * EXPECTED_MAX * 4, 16);
/** The same for objects in its array. Their keys have other paths, so they are not expected in place of each other. */
const IN_ARRAYS: usize = memory.data(MEMBERS_MAX * EXPECTED_MAX * 4, 16);
const SLOTS: usize = memory.data(MEMBER_SLOTS * 4, 16);
/** Those that are expected at the beginning of an event. */
export const FIRST_KEYS: usize = memory.data(EXPECTED_MAX * 4, 16);

let members: i32 = 0;

/** The expected member whose key is at this place; 0 where there is none. */
// @ts-ignore: decorator
@inline
export function expectedAt(expected: usize, at: usize): usize {
  if (expected == 0) return 0;
  const bytes = v128.load(at);
  for (let place = expected; place < expected + EXPECTED_MAX * 4; place += 4) {
    const member = <usize>load<u32>(place);
    if (member == 0) return 0;
    const length = <i32>load<u16>(member, LENGTH);
    const differences = v128.xor(bytes, v128.load(member));
    if (length <= 16) {
      if (!v128.any_true(first(differences, length))) return member;
    } else if (!v128.any_true(differences)) {
      const rest = v128.xor(v128.load(at, 16), v128.load(member, 16));
      if (!v128.any_true(first(rest, length - 16))) return member;
    }
  }
  return 0;
}

/**
 * The member with this path and kind, whose key with quotes and colon is so long. It is expected at this place from now
 * on. Gives 0 for a long key, and for a new one where there are too many members.
 */
export function memberFor(path: u64, kind: u32, key: usize, length: i32, expected: usize): usize {
  if (length > KEY_BYTES_MAX) return 0;
  let slot = <i32>path & (MEMBER_SLOTS - 1);
  let member: usize = 0;
  while (true) {
    member = <usize>load<u32>(SLOTS + slot * 4);
    if (member == 0 || load<u64>(member, PATH) == path) break;
    slot = (slot + 1) & (MEMBER_SLOTS - 1);
  }
  if (member == 0) {
    if (members == MEMBERS_MAX) return 0;
    member = MEMBERS + members++ * MEMBER_BYTES;
    memory.copy(member, key, length);
    store<u64>(member, path, PATH);
    store<u16>(member, kind, KIND);
    store<u16>(member, length, LENGTH);
    store<u32>(SLOTS + slot * 4, <u32>member);
  }
  if (expected != 0) expect(expected, member);
  return member;
}

/** The newest one is looked at first. The oldest of them is forgotten. */
function expect(expected: usize, member: usize): void {
  memory.copy(expected + 4, expected, (EXPECTED_MAX - 1) * 4);
  store<u32>(expected, <u32>member);
}

// @ts-ignore: decorator
@inline
export function pathOfMember(member: usize): u64 {
  return load<u64>(member, PATH);
}

// @ts-ignore: decorator
@inline
export function kindOfMember(member: usize): u32 {
  return <u32>load<u16>(member, KIND);
}

/** Of its key, with quotes and colon. */
// @ts-ignore: decorator
@inline
export function keyLength(member: usize): usize {
  return <usize>load<u16>(member, LENGTH);
}

/** Those that are expected behind a member. */
// @ts-ignore: decorator
@inline
export function following(member: usize): usize {
  return member + FOLLOWING;
}

/** Those that are expected at the beginning of a member's object. */
// @ts-ignore: decorator
@inline
export function inside(member: usize): usize {
  return INNER + ((member - MEMBERS) >> 2);
}

/** Those that are expected at the beginning of the objects in a member's array. */
// @ts-ignore: decorator
@inline
export function insideArray(member: usize): usize {
  return IN_ARRAYS + ((member - MEMBERS) >> 2);
}

/** False where the member was already seen in this event. */
// @ts-ignore: decorator
@inline
export function isNewMember(member: usize, event: u32): bool {
  if (load<u32>(member, SEEN) == event) return false;
  store<u32>(member, event, SEEN);
  return true;
}

/** Forgets all members: they are too many, for example because somebody uses ids as keys, or numbers of events begin anew. */
export function forgetMembers(): void {
  members = 0;
  memory.fill(MEMBERS, 0, MEMBERS_MAX * MEMBER_BYTES);
  memory.fill(INNER, 0, MEMBERS_MAX * EXPECTED_MAX * 4);
  memory.fill(IN_ARRAYS, 0, MEMBERS_MAX * EXPECTED_MAX * 4);
  memory.fill(SLOTS, 0, MEMBER_SLOTS * 4);
  memory.fill(FIRST_KEYS, 0, EXPECTED_MAX * 4);
}

// @ts-ignore: decorator
@inline
export function areMembersFull(): bool {
  return members == MEMBERS_MAX;
}
