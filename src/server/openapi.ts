import { z } from "zod";
import type { Route } from "../core/route.ts";

type Json = Record<string, unknown>;

/** The OpenAPI document, made from the very schemas that requests are checked by. */
export function openapiOf(routes: readonly Route[], version: string): Json {
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)/g, "{$1}");
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operationOf(route) };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Tidemark",
      version,
      description: "Times that end in Ms are milliseconds since the epoch.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    paths,
    components: {
      securitySchemes: { token: { type: "http", scheme: "bearer" } },
      schemas: { Error: ERROR },
    },
  };
}

const ERROR = {
  type: "object",
  required: ["error"],
  properties: {
    error: {
      type: "object",
      required: ["status", "message"],
      properties: { status: { type: "integer" }, message: { type: "string" } },
    },
  },
};

function operationOf(route: Route): Json {
  const refusal = {
    description: "Refused, and why.",
    content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
  };
  return {
    summary: route.summary,
    operationId: `${route.method.toLowerCase()}${route.path.replace(/^\/api/, "").replace(/[^A-Za-z0-9]+(.)?/g, (_, next?: string) => (next ?? "").toUpperCase())}`,
    parameters: [...parametersOf(route.params, "path"), ...parametersOf(route.query, "query")],
    ...(route.body === undefined
      ? {}
      : {
          requestBody: {
            required: true,
            content: { "application/json": { schema: schemaOf(route.body, "input") } },
          },
        }),
    responses: {
      [route.status ?? 200]: {
        description: "Done.",
        content: { "application/json": { schema: schemaOf(route.response, "output") } },
      },
      default: refusal,
    },
    // An empty entry means that a server on this machine alone answers without a token.
    security: route.scope !== "read" ? [{ token: [] }] : [{ token: [] }, {}],
  };
}

function parametersOf(schema: z.ZodType, place: "path" | "query"): Json[] {
  const { properties = {} } = schemaOf(schema, "output") as { properties?: Record<string, Json> };
  const { required = [] } = schemaOf(schema, "input") as { required?: readonly string[] };
  return Object.entries(properties).map(([name, { description, ...property }]) => ({
    ...{ name, in: place, description, schema: property },
    // A coerced field accepts anything, so only its default shows whether it is required.
    required: place === "path" || (required.includes(name) && !("default" in property)),
  }));
}

function schemaOf(schema: z.ZodType, io: "input" | "output"): Json {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: "any" }) as Json;
  return rest;
}
