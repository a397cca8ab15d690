import { z } from "zod";
import { UsageError } from "../../core/errors.ts";
import { headerValues, type RawAnswer, type RawInput, type RawRoute } from "../../core/raw-route.ts";
import { UNKNOWN_CALLER } from "../access/access-log.ts";
import { type InsightsAnswer, refusal } from "../insights/answer.ts";
import type { PageQuestion } from "../service/page.ts";
import { askSearch, type HttpContext, Refused, unavailable } from "./callers.ts";

const values = z
  .union([z.string(), z.array(z.string())])
  .transform((value) => (Array.isArray(value) ? value : [value]).filter((one) => one !== ""))
  .transform((list) => (list.length === 0 ? undefined : list))
  .optional();
const time = z.coerce.number().int().min(-8e15).max(8e15).optional();

const querySchema = z.object({
  user: values,
  ip: values,
  type: values,
  service: values,
  organization: values,
  outcome: values,
  application: values,
  device: values,
  correlation: values,
  id: values,
  name: values,
  text: z.string().max(1000).optional(),
  from: time,
  to: time,
  oldest: z.string().optional(),
  after: z.string().max(200).optional(),
  limit: z.coerce.number().int().min(1).max(1000).default(100),
});

const OPERATIONS = ["events", "event", "story"] as const;
const STORY_EVENTS = 2000;

/** The search of the page. A token with the right to search, or the server's own token, is needed. */
export function pageRoutes(context: HttpContext): RawRoute[] {
  return [
    ...OPERATIONS.map(
      (operation): RawRoute => ({
        method: "GET",
        path: `/api/search/${operation}`,
        run: (input) => run(context, operation, input),
      }),
    ),
    {
      method: "GET",
      path: "/api/search/access",
      async run(input) {
        const caller = callerOf(context, input);
        const answer =
          caller instanceof Refused
            ? { mayAsk: false, message: caller.message }
            : { mayAsk: true, organizations: caller.owners };
        return { status: 200, headers: JSON_TYPE, body: Buffer.from(JSON.stringify(answer)) };
      },
    },
  ];
}

const JSON_TYPE = { "Content-Type": "application/json; charset=utf-8" };

interface Caller {
  readonly name: string;
  /** Null for all. */
  readonly owners: readonly string[] | null;
}

async function run(
  context: HttpContext,
  operation: PageQuestion["operation"],
  input: RawInput,
): Promise<RawAnswer> {
  const caller = callerOf(context, input);
  let failure: unknown;
  const answer = await answered().catch((error: unknown) => {
    if (error instanceof z.ZodError) return refusal(400, z.prettifyError(error));
    if (error instanceof UsageError)
      return unavailable(error.message, caller instanceof Refused || caller.owners !== null);
    // The server answers and logs it; the access entry is written all the same.
    failure = error;
    return refusal(500, "");
  });
  context.accesses.append({
    who: caller instanceof Refused ? UNKNOWN_CALLER : caller.name,
    address: input.address,
    operation: `page ${operation}`,
    organizations: caller instanceof Refused ? [] : caller.owners,
    query: input.query,
    status: answer.status,
    events: answer.events,
  });
  if (failure !== undefined) throw failure;
  return answer;

  async function answered(): Promise<InsightsAnswer> {
    if (caller instanceof Refused) return refusal(caller.status, caller.message);
    return askSearch(context, { kind: "page", ...questionOf(operation, input, caller) }, input.signal);
  }
}

function callerOf({ tokens }: HttpContext, { rawHeaders, isAdministrator }: RawInput): Caller | Refused {
  if (isAdministrator) return { name: "server.token", owners: null };
  const [authorization = ""] = headerValues(rawHeaders, "authorization");
  const secret = /^Bearer +(\S+)$/i.exec(authorization)?.[1];
  const token = secret === undefined ? undefined : tokens.admit(secret);
  if (token === undefined)
    return new Refused(401, "Search needs a token: `tidemark tokens new NAME --right search` makes one.");
  return token.rights.includes("search")
    ? { name: token.name, owners: token.organizations }
    : new Refused(403, "This token has no right to search.");
}

function questionOf(
  operation: PageQuestion["operation"],
  { query }: RawInput,
  { owners }: Caller,
): PageQuestion {
  const asked = querySchema.parse(query);
  return {
    operation,
    owners,
    filter: {
      users: asked.user,
      ips: asked.ip,
      eventTypes: asked.type,
      services: asked.service,
      organizations: asked.organization,
      outcomes: asked.outcome,
      applications: asked.application,
      devices: asked.device,
      correlations: asked.correlation,
      ids: asked.id,
      anyone: asked.name,
      text: asked.text || undefined,
      fromMs: asked.from,
      toMs: asked.to,
    },
    newestFirst: asked.oldest === undefined,
    limit: operation === "story" ? STORY_EVENTS : asked.limit,
    after: asked.after ?? null,
  };
}
