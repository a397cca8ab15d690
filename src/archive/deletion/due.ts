import type { ArchiveState } from "../../core/archive.ts";

/** An order to remove a file that the store has locked (A24). */
export interface DueOrder {
  readonly path: string;
  readonly untilMs: number;
}

export function dueOrders(state: Pick<ArchiveState, "fact">): DueOrder[] {
  return JSON.parse(state.fact("due") ?? "[]") as DueOrder[];
}

/** A locked file goes when its lock ends. */
export async function addDue(state: ArchiveState, path: string, untilMs: number): Promise<void> {
  const due = dueOrders(state).filter((order) => order.path !== path);
  await state.setFact("due", JSON.stringify([...due, { path, untilMs }]));
}
