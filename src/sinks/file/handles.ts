import type { FileSystem, OpenFile } from "./system.ts";

/** A bounded set of open files. Those least recently used are closed; one that is in use never is. */
export interface Handles {
  /** Opens the file if need be, and keeps it open while `work` runs. */
  use(path: string, work: (file: OpenFile) => Promise<void>): Promise<void>;
  /** Makes the file, which must not be there yet. */
  make(path: string): Promise<void>;
  close(paths?: Iterable<string>): Promise<void>;
}

export function createHandles(system: FileSystem, openMax: number): Handles {
  // In the order of their last use.
  const handles = new Map<string, OpenFile>();
  const busy = new Set<string>();

  async function close(paths: Iterable<string>): Promise<void> {
    for (const path of paths) {
      const file = handles.get(path);
      handles.delete(path);
      await file?.close();
    }
  }

  async function add(path: string, flags: "wx" | "r+"): Promise<OpenFile> {
    const file = await system.open(path, flags);
    handles.set(path, file);
    const surplus = handles.size - openMax;
    if (surplus > 0) {
      await close(
        [...handles.keys()].filter((other) => other !== path && !busy.has(other)).slice(0, surplus),
      );
    }
    return file;
  }

  return {
    async use(path, work) {
      busy.add(path);
      try {
        const open = handles.get(path);
        if (open !== undefined) {
          handles.delete(path);
          handles.set(path, open);
        }
        await work(open ?? (await add(path, "r+")));
      } finally {
        busy.delete(path);
      }
    },
    async make(path) {
      await add(path, "wx");
    },
    close: (paths = [...handles.keys()]) => close(paths),
  };
}
