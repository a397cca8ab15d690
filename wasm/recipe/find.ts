/*
 * The table of recipes. An event has a recipe of its own, or one of two halves: a template for the event without its
 * groups, and the texts that these add.
 */
import { effectsList, privilegesList } from "./answers";
import { fingerprint, mainFingerprint } from "./fingerprint";
import { groupCount, variant } from "./groups";
import { mix } from "../hash";
import { RECIPE_SLOTS, RECIPES } from "./memory";

const TEMPLATE: u64 = 0x301;
const ADDED: u64 = 0x302;
const LIST: u64 = 0x303;

/** The texts that groups add to the recipe that was found last; 0 where it is a whole one. */
export let added: usize = 0;

/** The recipe for the event that was read last; 0 where there is none. A template's added texts are in `added`. */
export function findRecipe(): usize {
  added = 0;
  if (groupCount() > 0) {
    const template = find(templateKey());
    if (template != 0 && load<i32>(template, 4) != 0) {
      added = find(addedKey(load<u32>(template, 8)));
      if (added != 0) return template;
    }
  }
  return find(fingerprint());
}

/** Whether the last conversion was by a template and by the texts that groups add to it. */
export function isComposed(): bool {
  return added != 0;
}

/** The key of a template: what the output depends on, but for the groups. */
function templateKey(): u64 {
  return mix(mainFingerprint(), TEMPLATE);
}

/** The key of the texts that groups of this variant add to the templates of a family. */
function addedKey(family: u32): u64 {
  return mix(mix(variant, ADDED), <u64>family);
}

/** The text of a list of effects or privileges for the event that was read last; 0 where it is not known. */
export function findList(list: u32): usize {
  return find(listKey(list));
}

/** Lists with even numbers are effects. */
function listKey(list: u32): u64 {
  return mix(mix((list & 1) == 0 ? effectsList : privilegesList, LIST), <u64>list);
}

function find(key: u64): usize {
  let slot = <i32>key & (RECIPE_SLOTS - 1);
  while (true) {
    const at = RECIPES + slot * 16;
    const recipe = load<u32>(at, 8);
    if (recipe == 0) return 0;
    if (load<u64>(at) == key) return recipe;
    slot = (slot + 1) & (RECIPE_SLOTS - 1);
  }
}

/** What a recipe is for; its key is in `keyLow` and `keyHigh` then. */
export function chooseFingerprint(): void {
  key = fingerprint();
}

export function chooseTemplate(): void {
  key = templateKey();
}

export function chooseAdded(family: u32): void {
  key = addedKey(family);
}

export function chooseList(list: u32): void {
  key = listKey(list);
}

let key: u64 = 0;

export function keyLow(): u32 {
  return <u32>key;
}

export function keyHigh(): u32 {
  return <u32>(key >> 32);
}

/** Whether there is a recipe for what was chosen last. */
export function isKnown(): bool {
  return find(key) != 0;
}

/** Makes the recipe at this address that of a key. */
export function addRecipe(low: u32, high: u32, address: u32): void {
  const key = ((<u64>high) << 32) | <u64>low;
  let slot = <i32>key & (RECIPE_SLOTS - 1);
  while (load<u32>(RECIPES + slot * 16, 8) != 0 && load<u64>(RECIPES + slot * 16) != key)
    slot = (slot + 1) & (RECIPE_SLOTS - 1);
  store<u64>(RECIPES + slot * 16, key);
  store<u32>(RECIPES + slot * 16, address, 8);
}

export function clearRecipes(): void {
  memory.fill(RECIPES, 0, RECIPE_SLOTS * 16);
}
