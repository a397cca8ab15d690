import { setPriority } from "node:os";
import type { Command } from "commander";
import { openSearchService } from "../app/search-service.ts";
import { loadConfig } from "../config/load.ts";
import { hostService } from "../search/service/host.ts";
import type { Io } from "./io.ts";
import { withConfig } from "./options.ts";

const LOWEST_PRIORITY = 19;

/** The search process of the exporter; it speaks with it over standard input and output. Not for people. */
export function registerSearchProcess(program: Command, io: Io): void {
  withConfig(program.command("search-process", { hidden: true }), "tidemark search-process")
    .summary("answer the exporter's questions about what is held")
    .action(async (flags: { config: string }) => {
      setPriority(LOWEST_PRIORITY);
      const { config } = loadConfig(flags.config, io.env);
      const { service, close } = await openSearchService(config);
      try {
        await hostService(service, io.stdin, io.stdout, io.signal);
      } finally {
        await close();
      }
    });
}
