import { z } from "zod";
import { count, incomplete, ms } from "./fields.ts";

const day = z.string().nullable();

export const archiveViewSchema = z.strictObject({
  name: z.string(),
  daysClosed: count.meta({ description: "Days of which at least one part is closed." }),
  newestDay: day.meta({ description: "The newest of them." }),
  oldestOpenDay: day.meta({ description: "The oldest day with events that are not closed." }),
  waitingEvents: count.meta({ description: "Events that are not closed yet." }),
  stagedBytes: count.meta({
    description: "Pages that were moved out of the journal until their days close.",
  }),
  logEntries: count,
  checkpointMs: ms.nullable().meta({ description: "When the newest entry of the log was made." }),
  verifiedMs: ms.nullable().meta({ description: "The last daily verification of this process; null: none." }),
  findings: count.nullable().meta({ description: "What it found; 0: the archive is valid." }),
  differing: count.meta({
    description:
      "Closed days of organizations for which the service returned or counted another number of events than is held.",
  }),
  holds: count.meta({ description: "Legal holds in force." }),
  dueRemovals: count.meta({ description: "Files that go when their lock in the store ends." }),
});
export type ArchiveView = Readonly<z.output<typeof archiveViewSchema>>;

export const archivesSchema = z.strictObject({ archives: z.array(archiveViewSchema), incomplete });
export type ArchivesView = Readonly<z.output<typeof archivesSchema>>;
