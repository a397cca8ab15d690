import type { ArchiveState } from "../../core/archive.ts";
import type { Built } from "./build.ts";

/** A closed part with lines for which the service returned or counted another number of events than is held. */
export interface DifferingPart {
  readonly day: string;
  readonly part: string;
  readonly lines: number;
}

const FACT = "differing";
/** The newest so many are kept; the manifests have all of them. */
const PARTS_MAX = 1000;

export function differingOf(state: Pick<ArchiveState, "fact">): DifferingPart[] {
  return JSON.parse(state.fact(FACT) ?? "[]") as DifferingPart[];
}

/** Called before the parts are in the log, so that a crash cannot lose the note. A part that is closed again replaces its own. */
export async function noteDiffering(state: ArchiveState, built: readonly Built[]): Promise<void> {
  const noted = built.flatMap(({ files, differing = 0 }) =>
    differing === 0 ? [] : [{ day: files.day, part: files.part, lines: differing }],
  );
  if (noted.length === 0) return;
  const isNoted = ({ day, part }: DifferingPart) =>
    noted.some((other) => other.day === day && other.part === part);
  const all = [...differingOf(state).filter((part) => !isNoted(part)), ...noted];
  await state.setFact(FACT, JSON.stringify(all.slice(-PARTS_MAX)));
}
