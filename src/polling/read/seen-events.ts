import { byOwner } from "../../core/by-owner.ts";

/** The times and owners of very many events, in columns: as objects they would take four times the memory. */
export function createSeenEvents() {
  let timesMs = new Float64Array(256);
  let owners = new Uint32Array(256);
  let count = 0;
  const names: string[] = [];
  const numbers = new Map<string, number>();

  function numberOf(owner: string): number {
    const known = numbers.get(owner);
    if (known !== undefined) return known;
    numbers.set(owner, names.length);
    return names.push(owner) - 1;
  }

  return {
    get count() {
      return count;
    },
    add(timeMs: number, owner: string): void {
      if (count === timesMs.length) {
        const [before, ownersBefore] = [timesMs, owners];
        timesMs = new Float64Array(2 * count);
        timesMs.set(before);
        owners = new Uint32Array(2 * count);
        owners.set(ownersBefore);
      }
      timesMs[count] = timeMs;
      owners[count++] = numberOf(owner);
    },
    clear(): void {
      count = 0;
    },
    /** How many there are by owner, of those whose time is wanted. */
    countBy(isWanted: (timeMs: number) => boolean): Record<string, number> {
      const counts = new Uint32Array(names.length);
      for (let at = 0; at < count; at++) if (isWanted(timesMs[at]!)) counts[owners[at]!]!++;
      const counted = byOwner<number>();
      for (const [number, name] of names.entries()) if (counts[number]! > 0) counted[name] = counts[number]!;
      return counted;
    },
  };
}

export type SeenEvents = Pick<ReturnType<typeof createSeenEvents>, "count" | "countBy">;
