import { randomUUID } from "node:crypto";
import { importSourceOf } from "../directory/import-source.ts";
import type { StartContext } from "../imports/context.ts";
import { openImportStore } from "../imports/store/open.ts";
import type { ManagementContext } from "./management.ts";

/** For commands that start or change jobs beside a running process. */
export function startContextOf(context: ManagementContext): StartContext {
  return {
    store: openImportStore(context.database("write")),
    source: (account) => importSourceOf(context.management(account)),
    ...{ clock: context.clock, log: context.log },
    sender: `command:${randomUUID()}`,
    sending: new Set(),
    refusal: context.refusal,
  };
}
