import { z } from "zod";
import { durationSchema, sizeSchema } from "../../core/schema.ts";
import { templateFault } from "./path.ts";

export const fileSchema = z.strictObject({
  directory: z.string().min(1).meta({
    description: "The folder to write to; it is made if need be, and belongs to this sink alone.",
  }),
  path: z
    .string()
    .check((check) => {
      const fault = templateFault(check.value);
      if (fault !== undefined) check.issues.push({ code: "custom", message: fault, input: check.value });
    })
    .default("{organization}/{date}")
    .meta({
      description:
        "The path of a file below the directory, from {account}, {organization}, {service}, {event_type} and {date} (the event's own, UTC). A number and the extension are added: .jsonl for JSON formats, .parquet for Parquet (.ocsf while it is in work), else .log; .zst or .gz behind it with `compress`.",
    }),
  rotateSize: sizeSchema("A file is finished before it grows beyond this, compressed or not.", {
    min: 1000,
  }).prefault("256MB"),
  rotateAge: durationSchema("A file is finished with the first batch after this time.", {
    minMs: 1000,
  }).prefault("1d"),
  compress: z.enum(["zstd", "gzip"]).optional().meta({
    description:
      "Compresses what is written, into .jsonl.zst or .jsonl.gz files that standard tools read at any time. Each batch becomes one zstd frame or gzip member, so a few events at a time compress less well than many. Raw pages that go to one file are written as the journal has compressed them.",
  }),
  gzip: z.boolean().default(false).meta({
    description:
      "Compresses files with gzip when they are finished; until then they are plain. Without effect beside `compress`.",
  }),
  openFiles: z.int().min(16).max(10_000).default(256).meta({
    description: "How many files are kept open; more may be in work, they are opened again when needed.",
  }),
});

export type FileSettings = z.output<typeof fileSchema>;
