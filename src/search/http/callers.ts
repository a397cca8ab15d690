import { headerValues, type RawInput } from "../../core/raw-route.ts";
import { timeoutSignal } from "../../core/timeout.ts";
import type { AccessLog } from "../access/access-log.ts";
import { maySee, type SearchTokens, type Token } from "../access/tokens.ts";
import { type InsightsAnswer, refusal } from "../insights/answer.ts";
import type { SearchService, ServiceRequest } from "../service/service.ts";

export interface HttpContext {
  readonly service: SearchService;
  readonly tokens: SearchTokens;
  readonly accesses: Pick<AccessLog, "append">;
  /** How long one question may take. */
  readonly timeoutMs: number;
}

/** A refusal on the way to an answer. */
export class Refused extends Error {
  override readonly name = "Refused";
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

const ID = /^[0-9a-f]{24}$/;

/**
 * The owners that a request is about: those of x-org-id, or of x-provider-id, or the only one of the token. An id
 * that the token may not see is refused in the same words whether it exists or not.
 */
export async function callerOrganizations(
  { service }: HttpContext,
  { rawHeaders, signal }: RawInput,
  token: Token,
): Promise<string[]> {
  const ids = headerValues(rawHeaders, "x-org-id").map((id) => id.toLowerCase());
  const providers = headerValues(rawHeaders, "x-provider-id").map((id) => id.toLowerCase());
  if (ids.length > 0 && providers.length > 0)
    throw new Refused(400, "x-provider-id is sent instead of x-org-id, not beside it");
  const wrong = [...ids, ...providers].find((id) => !ID.test(id));
  if (wrong !== undefined)
    throw new Refused(
      400,
      `${ids.length > 0 ? "x-org-id" : "x-provider-id"} is malformed: 24 hexadecimal digits`,
    );
  const named = [...new Set([...ids, ...providers.map((id) => `provider:${id}`)])];
  if (named.length === 0) return [own(token)];
  if (!named.every((owner) => maySee(token, owner)))
    throw new Refused(403, "The token has no access to this organization");
  const answer = await service.answer({ kind: "owners" }, signal);
  const held = new Set(JSON.parse(answer.body.toString("utf8")) as string[]);
  // A token that names an organization may ask for it before there are events of it.
  const isKnown = (owner: string) => held.has(owner) || token.organizations?.includes(owner);
  if (!named.every(isKnown)) throw new Refused(404, "Organization ID not found");
  return named.sort();
}

function own({ organizations }: Token): string {
  if (organizations?.length === 1) return organizations[0]!;
  throw new Refused(401, "Unauthorized: a token for several organizations must send x-org-id");
}

/**
 * The answer when search is not available. The reason may contain paths and the ids of other tenants, so a caller who
 * is limited to some of them does not get it.
 */
export function unavailable(reason: string, isLimited: boolean): InsightsAnswer {
  return refusal(
    503,
    isLimited ? "Search is not available at the moment. The operator finds the reason in the log." : reason,
  );
}

/** Asks the service within the time limit, and turns its failures into answers. */
export async function askSearch(
  { service, timeoutMs }: HttpContext,
  request: ServiceRequest,
  signal: AbortSignal,
): Promise<InsightsAnswer> {
  const timeout = timeoutSignal(timeoutMs);
  try {
    return await service.answer(request, AbortSignal.any([signal, timeout]));
  } catch (error) {
    if (signal.aborted || !timeout.aborted) throw error;
    return refusal(
      503,
      `The query took longer than ${Math.round(timeoutMs / 1000)} s and was stopped. Ask for a shorter time or fewer organizations, or raise search.timeout in the config.`,
    );
  }
}
