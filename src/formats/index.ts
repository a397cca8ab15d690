import type { FormatDefinition } from "../core/format.ts";
import { cef } from "./cef.ts";
import { ecs } from "./ecs.ts";
import { envelope } from "./envelope.ts";
import { leef } from "./leef.ts";
import { ocsf } from "./ocsf.ts";
import { parquet } from "./parquet.ts";
import { raw } from "./raw.ts";

export const formats: readonly FormatDefinition[] = [raw, envelope, ocsf, ecs, cef, leef, parquet];
