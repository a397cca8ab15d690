import { type Command, Option } from "commander";
import { idOfRenamed } from "../config/kafka-names.ts";
import { loadConfig } from "../config/load.ts";
import { RESUME_FROM } from "../core/actions.ts";
import { UsageError } from "../core/errors.ts";
import { change } from "./change.ts";
import type { Io } from "./io.ts";
import { withConfig } from "./options.ts";

/** `tidemark sinks`: the positions of sinks that were renamed, removed, or do not match their destination. */
export function registerSinks(program: Command, io: Io): void {
  const group = program
    .command("sinks")
    .summary("rename, resume or forget the positions of sinks")
    .description("Sinks that were renamed or removed, wait, or do not match their destination.");
  withConfig(group.command("rename"), "tidemark sinks rename disk archive")
    .summary("keep a sink's position under its new name")
    .argument("<from>", "the name it had")
    .argument("<to>", "the name it has in the config now")
    .action((from: string, to: string, flags: { config: string }) => {
      const { config } = loadConfig(flags.config, io.env);
      const id = idOfRenamed(config, from, to);
      if (id !== undefined)
        throw new UsageError(
          `Kafka holds the position of "${from}" under its transactional id: ${id}, unless the config gave it another one. "${to}" would not find it. Add "transactionalId: ${id}", or the one it had, to the sink "${to}" in the config, then run this again.`,
        );
      return change(io, config, "rename", { from, to });
    });
  withConfig(group.command("forget"), "tidemark sinks forget disk")
    .summary("delete the position of a removed sink, its undelivered events and its dead letters")
    .argument("<name>", "the sink that was removed from the config")
    .action((sink: string, flags: { config: string }) =>
      change(io, loadConfig(flags.config, io.env).config, "forget", { sink }),
    );
  withConfig(group.command("retry"), "tidemark sinks retry siem")
    .summary("try a paused, waiting or stopped sink at once")
    .argument("<name>", "the sink")
    .action((sink: string, flags: { config: string }) =>
      change(io, loadConfig(flags.config, io.env).config, "retry", { sink }),
    );
  withConfig(group.command("resume"), "tidemark sinks resume lake --from destination")
    .summary("choose where a sink continues whose position does not match its destination")
    .argument("<name>", "the sink")
    .addOption(
      new Option("--from <where>", "the alarm says what each choice means")
        .choices([...RESUME_FROM])
        .makeOptionMandatory(),
    )
    .action((sink: string, flags: { config: string; from: (typeof RESUME_FROM)[number] }) =>
      change(io, loadConfig(flags.config, io.env).config, "resume", { sink, from: flags.from }),
    );
}
