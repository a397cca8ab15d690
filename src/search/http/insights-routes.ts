import { randomUUID } from "node:crypto";
import { UsageError } from "../../core/errors.ts";
import { headerValues, type RawAnswer, type RawInput, type RawRoute } from "../../core/raw-route.ts";
import { AGGREGATES } from "../../query/aggregates.ts";
import { UNKNOWN_CALLER } from "../access/access-log.ts";
import type { Token } from "../access/tokens.ts";
import { type InsightsAnswer, refusal } from "../insights/answer.ts";
import { askSearch, callerOrganizations, type HttpContext, Refused, unavailable } from "./callers.ts";

const PATH = "/insights/directory/v1/events";

/** The service's own Insights interface, over everything that is held. */
export function insightsRoutes(context: HttpContext): RawRoute[] {
  return ["page", ...AGGREGATES].map((operation) => ({
    method: "POST",
    path: operation === "page" ? PATH : `${PATH}/${operation}`,
    run: (input) => run(context, operation, input),
  }));
}

async function run(context: HttpContext, operation: string, input: RawInput): Promise<RawAnswer> {
  const token = admitted(context, input);
  const scope: { owners: readonly string[]; query: unknown } = { owners: [], query: null };
  let answer: InsightsAnswer;
  let failure: unknown;
  try {
    answer = token instanceof Refused ? refusal(token.status, token.message) : await answered(token);
  } catch (error) {
    if (error instanceof Refused) answer = refusal(error.status, error.message);
    else if (error instanceof UsageError)
      answer = unavailable(error.message, token instanceof Refused || token.organizations !== null);
    else {
      // The server answers and logs it; the access entry is written all the same.
      failure = error;
      answer = refusal(500, "");
    }
  }
  context.accesses.append({
    who: token instanceof Refused ? UNKNOWN_CALLER : token.name,
    address: input.address,
    operation: `insights ${operation}`,
    organizations: scope.owners,
    query: scope.query,
    status: answer.status,
    events: operation === "page" ? answer.events : null,
  });
  if (failure !== undefined) throw failure;
  const { status, headers, body } = answer;
  return { status, headers: { ...headers, "X-Request-Id": randomUUID() }, body };

  async function answered(caller: Token): Promise<InsightsAnswer> {
    scope.owners = await callerOrganizations(context, input, caller);
    scope.query = bodyOf(input);
    const request = { kind: "insights" as const, operation, owners: scope.owners, body: scope.query };
    return askSearch(context, request, input.signal);
  }
}

function admitted({ tokens }: HttpContext, { rawHeaders }: RawInput): Token | Refused {
  const keys = headerValues(rawHeaders, "x-api-key");
  const token = keys.length === 1 ? tokens.admit(keys[0]!) : undefined;
  if (token === undefined) return new Refused(401, "Unauthorized");
  return token.rights.includes("insights")
    ? token
    : new Refused(403, "Forbidden: the token has no right to the Insights interface");
}

function bodyOf({ rawHeaders, body }: RawInput): unknown {
  const [type = ""] = headerValues(rawHeaders, "content-type");
  if (!/^application\/json\b/i.test(type))
    throw new Refused(400, "The body must be sent as application/json");
  let parsed: unknown;
  try {
    parsed = JSON.parse(body.toString("utf8"));
  } catch {
    throw new Refused(400, "The body is no JSON");
  }
  if (isDeeper(parsed, LEVELS_MAX))
    throw new Refused(400, `The body is nested more than ${LEVELS_MAX} levels deep`);
  return parsed;
}

/** More than any search_term that is answered; JSON.stringify fails far beyond it. */
const LEVELS_MAX = 500;

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1));
}
