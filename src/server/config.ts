import { z } from "zod";
import { plainHttpSchema } from "../core/http/plain-http.ts";
import { tlsSchema } from "../core/schema.ts";
import { secretSchema } from "../core/secret.ts";

const peersSchema = z
  .strictObject({
    addresses: z
      .array(z.url({ protocol: /^https?$/ }))
      .min(1)
      .max(1024)
      .meta({
        description:
          "The addresses of the servers of all shards. The list may be the same everywhere: a shard recognizes itself.",
      }),
    token: secretSchema(
      "The token that the other servers ask for; their readToken is enough. Browsers never see it.",
    ).optional(),
    plainHttp: plainHttpSchema,
    tls: tlsSchema.optional(),
  })
  .meta({ description: "The other shards, for a page that shows all of them." });

export type PeersConfig = z.output<typeof peersSchema>;

/** The status page, the API, the metrics and the health checks; one section, one port. */
export const serverSchema = z
  .strictObject({
    host: z
      .string()
      .min(1)
      .default("127.0.0.1")
      .meta({ description: "The address to listen on. Any but a loopback address needs a token." }),
    port: z
      .int()
      .min(0)
      .max(65_535)
      .default(9464)
      .meta({ description: "The port to listen on; 0 takes any free one." }),
    token: secretSchema(
      "The token that may read and change; changes are refused without one. At least 16 characters.",
    ).optional(),
    readToken: secretSchema("A second token that may only read, for Prometheus, say.").optional(),
    hosts: z.array(z.string().min(1)).max(100).default([]).meta({
      description:
        "Names under which the server is reached. Requests for other names are refused, addresses and localhost excepted.",
    }),
    peers: peersSchema.optional(),
    organizationLabels: z
      .int()
      .min(0)
      .max(10_000)
      .default(100)
      .meta({ description: "Metrics name each organization up to this number of them; above it none." }),
    clients: z
      .int()
      .min(1)
      .max(1000)
      .default(32)
      .meta({ description: "Live connections (open pages) at once, at the most." }),
    requestsPerSecond: z
      .number()
      .min(1)
      .max(10_000)
      .default(50)
      .meta({ description: "Requests a second that one address may make, in the long run." }),
  })
  .meta({ description: "The status page, the API, the metrics and the health checks." });

export type ServerConfig = z.output<typeof serverSchema>;
