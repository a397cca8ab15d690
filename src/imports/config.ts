import { z } from "zod";
import { durationSchema } from "../core/schema.ts";
import { type Choice, choiceSchema, requestSchema } from "./job.ts";
import { scheduleProblem, timeZoneProblem } from "./schedule.ts";

const MINUTE_MS = 60_000;

const duration = (description: string, defaultMs: number, minMs = 1000) =>
  durationSchema(description, { minMs, maxMs: 7 * 86_400_000 })
    .default(defaultMs)
    .meta({ description });

/** One import of the config file. */
export const importSchema = z
  .strictObject({
    name: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/, {
        error: "up to 64 letters, digits, dots, dashes and underscores",
      })
      .meta({ description: "The import's name: for commands, logs and the page." }),
    account: z.string().min(1).meta({ description: "The account whose key starts it." }),
    organization: z
      .string()
      .min(1)
      .optional()
      .meta({ description: "The organization's id; multi-tenant administrators must name it." }),
    application: z
      .string()
      .min(1)
      .optional()
      .meta({ description: "The id of the application that imports users." }),
    workday: z
      .string()
      .min(1)
      .optional()
      .meta({ description: "The id of the Workday integration, instead of an application." }),
    ...requestSchema.shape,
    ...choiceSchema.shape,
    schedule: z
      .string()
      .optional()
      .meta({ description: "When the process starts it: a cron expression such as 0 2 * * *." }),
    timeZone: z
      .string()
      .default("UTC")
      .meta({ description: "The time zone of the schedule, such as Europe/Berlin." }),
    catchUp: duration(
      "How late a scheduled run may still start; a later one is recorded as missed and raises an alarm.",
      60 * MINUTE_MS,
    ),
    quietAfter: duration("After so long without an event a job is shown as quiet.", 2 * MINUTE_MS),
    finishAfter: duration(
      "A job whose users do not all get an outcome is taken for finished after so long without an event.",
      15 * MINUTE_MS,
    ),
  })
  .superRefine((definition, context) => {
    const complain = (path: string, message: string) =>
      context.addIssue({ code: "custom", path: [path], message });
    if (!definition.application === !definition.workday) {
      complain("application", "give either application or workday");
    }
    const { only, exclude, onlyNew, state, postNameless, workday } = definition;
    const isChoosing =
      only.length > 0 || exclude.length > 0 || onlyNew || postNameless || state !== undefined;
    if (isChoosing && workday === undefined) {
      complain(
        "workday",
        "only, exclude, onlyNew, state and postNameless choose workers of a Workday integration",
      );
    }
    const zone = timeZoneProblem(definition.timeZone);
    if (zone !== undefined) complain("timeZone", zone);
    const schedule = definition.schedule === undefined ? undefined : scheduleProblem(definition.schedule);
    if (schedule !== undefined) complain("schedule", schedule);
    if (definition.finishAfter < definition.quietAfter) {
      complain("finishAfter", "must not be shorter than quietAfter");
    }
  })
  .meta({ description: "An import of users that can be started by its name, or by a schedule." });

export type ImportDefinition = z.output<typeof importSchema>;

export function choiceOf(definition: Choice): Choice {
  const { only, exclude, onlyNew, state, postNameless } = definition;
  return { only, exclude, onlyNew, postNameless, ...(state === undefined ? {} : { state }) };
}
