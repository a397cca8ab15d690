import { parseAllDocuments } from "yaml";
import { z } from "zod";
import { durationMsOf } from "../../src/core/time.ts";
import type { Pipeline } from "./pipeline.ts";
import { conditionOf } from "./sigma-condition.ts";
import { type Matcher, matcherOf } from "./sigma-values.ts";

/*
 * Runs Sigma rules over converted events. It knows the part of Sigma that the shipped rules use, and throws
 * on anything else, so that a rule which it accepts is a rule that it evaluates completely.
 */

type Fields = Record<string, unknown>;

const common = {
  title: z.string().min(5).max(120),
  id: z.uuid(),
  status: z.enum(["stable", "test", "experimental"]),
  description: z.string().min(15).regex(/\.$/),
  author: z.string(),
  falsepositives: z.array(z.string()).min(1),
  level: z.enum(["informational", "low", "medium", "high", "critical"]),
  tags: z.array(z.string().regex(/^attack\.(t\d{4}(\.\d{3})?|[a-z-]+)$/)).min(2),
};

const ruleSchema = z.strictObject({
  ...common,
  name: z
    .string()
    .regex(/^[a-z_]+$/)
    .optional(),
  logsource: z.strictObject({ product: z.literal("jumpcloud"), service: z.literal("directory_insights") }),
  detection: z.record(z.string(), z.unknown()),
  fields: z.array(z.string()).min(1),
});

const correlationSchema = z.strictObject({
  ...common,
  correlation: z.strictObject({
    type: z.enum(["event_count", "value_count"]),
    rules: z.array(z.string()).length(1),
    "group-by": z.array(z.string()).min(1),
    timespan: z.string().regex(/^\d+[smhd]$/),
    condition: z.strictObject({ field: z.string().optional(), gte: z.number().int().min(2) }),
  }),
});

type Rule = z.output<typeof ruleSchema>;
type Correlation = z.output<typeof correlationSchema>;

export interface Detection {
  readonly rule: Rule;
  readonly correlation: Correlation | undefined;
  /** Every field name that it uses. */
  readonly fields: ReadonlySet<string>;
}

export function readDetection(text: string): Detection {
  const documents = parseAllDocuments(text, { strict: true });
  for (const document of documents) if (document.errors.length > 0) throw document.errors[0]!;
  const [first, second, ...more] = documents.map((document) => document.toJS() as unknown);
  if (more.length > 0) throw new Error("at most a rule and a correlation");
  const rule = ruleSchema.parse(first);
  const correlation = second === undefined ? undefined : correlationSchema.parse(second);
  if (correlation && correlation.correlation.rules[0] !== rule.name)
    throw new Error(`the correlation is of ${correlation.correlation.rules[0]}, not of ${rule.name}`);
  return { rule, correlation, fields: fieldsOf(rule, correlation) };
}

function fieldsOf(rule: Rule, correlation: Correlation | undefined): ReadonlySet<string> {
  const found = new Set(rule.fields);
  for (const [name, selection] of Object.entries(rule.detection))
    if (name !== "condition")
      for (const map of mapsOf(selection)) for (const key of Object.keys(map)) found.add(key.split("|")[0]!);
  for (const name of correlation?.correlation["group-by"] ?? []) found.add(name);
  if (correlation?.correlation.condition.field) found.add(correlation.correlation.condition.field);
  return found;
}

/** A map of fields, or a list of maps where one has to match. */
function mapsOf(selection: unknown): readonly Fields[] {
  const list = Array.isArray(selection) ? (selection as unknown[]) : [selection];
  return list.map((one) => {
    if (typeof one !== "object" || one === null || Array.isArray(one) || Object.keys(one).length === 0)
      throw new Error(`not a map of fields: ${JSON.stringify(one)}`);
    return one as Fields;
  });
}

export interface Converted {
  readonly timestampMs: number;
  readonly output: Fields;
}

/** Whether a detection fires on these events; `exact` are the fields whose values are words of ours. */
export function fires(
  { rule, correlation }: Detection,
  events: readonly Converted[],
  pipeline: Pipeline,
  exact: ReadonlySet<string>,
): boolean {
  const matches = compile(rule, pipeline, exact);
  const matching = events.filter(({ output }) => matches(output));
  if (correlation === undefined) return matching.length > 0;
  return correlates(correlation.correlation, matching, pipeline);
}

function compile(rule: Rule, pipeline: Pipeline, exact: ReadonlySet<string>): (output: Fields) => boolean {
  const { condition, ...selections } = rule.detection;
  if (typeof condition !== "string") throw new Error("a rule has one condition");
  const compiled = new Map(
    Object.entries(selections).map(([name, selection]) => [
      name,
      mapsOf(selection).map((map) =>
        Object.entries(map).map((entry) => compileField(entry, pipeline, exact)),
      ),
    ]),
  );
  const expression = conditionOf(condition, [...compiled.keys()]);
  return (output) =>
    expression((name) => compiled.get(name)!.some((all) => all.every((matches) => matches(output))));
}

function compileField(
  [key, value]: [string, unknown],
  pipeline: Pipeline,
  exact: ReadonlySet<string>,
): (output: Fields) => boolean {
  const [name = "", ...modifiers] = key.split("|");
  const path = pipeline.field(name).split(".");
  const match: Matcher = matcherOf(modifiers, pipeline.value(name, value), exact.has(name));
  return (output) => match(valuesAt(output, path));
}

/** All values at a path, also through lists; null is no value. */
export function valuesAt(value: unknown, [key, ...rest]: readonly string[]): unknown[] {
  if (value === undefined || value === null) return [];
  if (Array.isArray(value))
    return value.flatMap((one) => valuesAt(one, key === undefined ? [] : [key, ...rest]));
  if (key === undefined) return [value];
  return typeof value === "object" ? valuesAt((value as Fields)[key], rest) : [];
}

/** Within a time span that starts at any of the matching events, for each combination of the group fields. */
function correlates(
  correlation: Correlation["correlation"],
  matching: readonly Converted[],
  pipeline: Pipeline,
): boolean {
  const spanMs = durationMsOf(correlation.timespan)!;
  const { field, gte } = correlation.condition;
  if ((correlation.type === "value_count") !== (field !== undefined))
    throw new Error(`${correlation.type} with field ${field}`);
  const groups = new Map<string, Converted[]>();
  for (const event of matching) {
    const key = JSON.stringify(
      correlation["group-by"].map((name) => valuesAt(event.output, pipeline.field(name).split("."))),
    );
    groups.set(key, [...(groups.get(key) ?? []), event]);
  }
  for (const [key, group] of groups) {
    // Events without a value for the group fields belong to no group.
    if (key.includes("[]")) continue;
    for (const { timestampMs } of group) {
      const within = group.filter(
        (other) => other.timestampMs >= timestampMs && other.timestampMs - timestampMs < spanMs,
      );
      const values =
        field && within.flatMap(({ output }) => valuesAt(output, pipeline.field(field).split(".")));
      if ((values ? new Set(values).size : within.length) >= gte) return true;
    }
  }
  return false;
}
