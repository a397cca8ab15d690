import type { Format } from "../../core/format.ts";
import { encodeName } from "../../core/names.ts";
import { isSuccess } from "../over-http/status.ts";
import { type BulkConnection, bulkError, saidOf } from "./answer.ts";
import { mappingsFor, type Product, SETTINGS } from "./mappings.ts";

export interface TemplateNames {
  readonly sink: string;
  /** The index names with their placeholders. */
  readonly indexes: readonly string[];
  readonly isStream: boolean;
}

/** Why the cluster has no template of ours. */
export interface TemplateRefusal {
  readonly message: string;
  readonly remedy: string;
}

/**
 * Puts the index template for a sink's indexes; repeating it changes nothing. A refusal is returned, not
 * thrown: events can be written without the template, and a user may be allowed to write and nothing else.
 */
export async function putTemplate(
  connection: BulkConnection,
  names: TemplateNames,
  product: Product,
  format: Format,
  signal: AbortSignal,
): Promise<TemplateRefusal | undefined> {
  const { base, headers, destination } = connection;
  const body = JSON.stringify({
    index_patterns: names.indexes.map((index) => index.replace(/\{[^}]*\}/g, "*")),
    priority: 200,
    ...(names.isStream && { data_stream: {} }),
    template: { settings: SETTINGS, mappings: mappingsFor(product, format) },
    _meta: { description: "Directory events, written by Tidemark." },
  });
  const url = `${base}/_index_template/tidemark-${encodeName(names.sink)}`;
  const answer = await connection.send(
    { method: "PUT", url, headers: { ...headers, "content-type": "application/json" }, body },
    signal,
  );
  if (isSuccess(answer)) return undefined;
  const error = bulkError(answer, destination);
  if (error?.name === "RetryableError") throw error;
  return {
    message: `${destination} refused the index template (${answer.status}): ${saidOf(answer) ?? "no reason given"}. Events are written without it, and those with fields of changing types may be refused.`,
    remedy:
      "Allow the user to manage index templates, remove another template with the same patterns and priority, or put your own template and set template: false.",
  };
}
