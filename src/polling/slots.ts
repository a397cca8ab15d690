/** Pages in flight, over the whole process: what bounds memory. */
export interface Slots {
  take(signal: AbortSignal): Promise<() => void>;
  /** undefined when none is free now. */
  tryTake(): (() => void) | undefined;
}

export function createSlots(total: number): Slots {
  let free = total;
  const waiting: (() => void)[] = [];

  function slot(): () => void {
    let given = false;
    return () => {
      if (given) return;
      given = true;
      const next = waiting.shift();
      if (next === undefined) free++;
      else next();
    };
  }

  return {
    tryTake() {
      if (free === 0) return undefined;
      free--;
      return slot();
    },
    take(signal) {
      return new Promise((resolve, reject) => {
        if (signal.aborted) return reject(signal.reason);
        if (free > 0) {
          free--;
          return resolve(slot());
        }
        const enter = () => {
          signal.removeEventListener("abort", leave);
          resolve(slot());
        };
        const leave = () => {
          waiting.splice(waiting.indexOf(enter), 1);
          reject(signal.reason);
        };
        waiting.push(enter);
        signal.addEventListener("abort", leave, { once: true });
      });
    },
  };
}
