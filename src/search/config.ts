import { z } from "zod";
import { durationSchema, sizeSchema } from "../core/schema.ts";

export const searchSchema = z
  .strictObject({
    index: z.string().min(1).optional().meta({
      description:
        "The folder of the index, on a local disk; by default beside the state file. It can be deleted at any time and is made again.",
    }),
    keepIndexed: z.boolean().default(true).meta({
      description:
        "Keeps the index of the archive up to date while the exporter runs, in a process of lowest priority. Without it a search indexes what is missing itself, and takes longer.",
    }),
    memory: sizeSchema("Memory of the search engine; what does not fit goes to the index folder.", {
      min: 64_000_000,
    }).prefault("200MB"),
    timeout: durationSchema("How long a query of the page or of the Insights interface may take.", {
      minMs: 1000,
    }).prefault("60s"),
    scanMax: sizeSchema(
      "Events that one query of the page or of the Insights interface may read to answer what the index cannot, a text search say.",
    ).prefault("4GB"),
    archive: z
      .string()
      .optional()
      .meta({ description: "The archive to search, where the config has more than one." }),
  })
  .prefault({})
  .meta({
    description:
      "Search over everything that is held: `tidemark search`, the page, and the Insights interface.",
  });

export type SearchConfig = z.output<typeof searchSchema>;
