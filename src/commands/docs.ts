import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { referenceText, schemaText } from "../config/docs.ts";
import type { Io } from "./io.ts";

export function registerDocs(program: Command, io: Io): void {
  program
    .command("docs")
    .summary("write the configuration reference and the schema for editors")
    .description("Writes REFERENCE.md and schema.json, made from the schemas that check a config.")
    .option("--directory <folder>", "where to write them", "config")
    .option("--check", "write nothing; fail when they are not current")
    .addHelpText("after", "\nExample:\n  $ tidemark docs --directory config")
    .action((flags: { directory: string; check?: boolean }) => {
      const files = { "REFERENCE.md": referenceText(), "schema.json": schemaText() };
      if (!flags.check) mkdirSync(flags.directory, { recursive: true });
      for (const [name, text] of Object.entries(files)) {
        const path = join(flags.directory, name);
        if (!flags.check) writeFileSync(path, text);
        else if (!existsSync(path) || readFileSync(path, "utf8") !== text) {
          io.stderr.write(`${path} is not current: run "npm run docs".\n`);
          io.setExitCode(1);
        }
      }
    });
}
