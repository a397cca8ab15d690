import type { ArchiveState } from "../../core/archive.ts";
import type { LockedFile } from "../log/locked.ts";

/** Orders to remove files that the store has locked (A24). */
export function dueOrders(state: Pick<ArchiveState, "fact">): LockedFile[] {
  return JSON.parse(state.fact("due") ?? "[]") as LockedFile[];
}

/** A locked file goes when its lock ends. */
export async function addDue(state: ArchiveState, path: string, untilMs: number): Promise<void> {
  const due = dueOrders(state).filter((order) => order.path !== path);
  await state.setFact("due", JSON.stringify([...due, { path, untilMs }]));
}
