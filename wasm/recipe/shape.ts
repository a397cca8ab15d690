/* The shape of the event that is being read. walk.ts says what it is made of. */
import { step } from "./hash";

export const OPEN_OBJECT: u64 = 0x201;
export const OPEN_ARRAY: u64 = 0x202;
export const END: u64 = 0x203;
export const STRING: u64 = 0x204;
export const NUMBER: u64 = 0x206;
/** An integer that a double cannot hold exactly; it is treated as text. */
export const LONG_INTEGER: u64 = 0x207;
export const BOOLEAN: u64 = 0x208;
export const NULL: u64 = 0x209;
export const NO_ORGANIZATION: u64 = 0x20a;

/** The shape so far. */
export let shape: u64 = 0;

// @ts-ignore: decorator
@inline
export function setShape(value: u64): void {
  shape = value;
}

// @ts-ignore: decorator
@inline
export function mixShape(value: u64): void {
  shape = step(shape, value);
}
