import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { UsageError } from "../core/errors.ts";
import type { JobUser } from "../imports/job.ts";
import type { Io } from "./io.ts";
import { jobReader } from "./job-reader.ts";
import { type CommonFlags, type OpenManagement, printJson, using } from "./management.ts";

export function exportCsv(
  io: Io,
  open: OpenManagement,
  id: number,
  flags: CommonFlags & { csv: string },
): Promise<void> {
  return using(open, flags, async (context) => {
    const jobs = jobReader(context);
    if ((await jobs.job(id)) === undefined)
      throw new UsageError(`There is no job ${id}; see "tidemark imports list".`);
    const all = await jobs.users(id);
    if (flags.json) return printJson(io, all);
    const content = csvOf(all);
    if (flags.csv === "-") {
      io.stdout.write(content);
      return;
    }
    const file = createWriteStream(flags.csv);
    file.end(content);
    await once(file, "finish");
    io.stdout.write(`${all.length} users written to ${flags.csv}.\n`);
  });
}

const COLUMNS = ["username", "email", "userId", "outcome", "reason", "event", "timestamp", "state"] as const;

/** RFC 4180. A cell that a spreadsheet would run as a formula is made text. */
export function csvOf(users: readonly JobUser[]): string {
  const rows = users.map((user) => COLUMNS.map((column) => csvCell(user[column] ?? "")));
  return [COLUMNS, ...rows].map((row) => `${row.join(",")}\r\n`).join("");
}

function csvCell(value: string): string {
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
