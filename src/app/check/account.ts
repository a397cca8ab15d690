import type { AccountConfig } from "../../config/schema.ts";
import { systemClock } from "../../core/clock.ts";
import { explain } from "../../core/errors.ts";
import { scanPage } from "../../core/scanner.ts";
import { ownsOrganization, type Shard, shardText } from "../../core/shard.ts";
import { formatDuration } from "../../core/time.ts";
import { NotEntitledError } from "../../directory/errors.ts";
import type { InsightsClient, InsightsScope } from "../../directory/insights.ts";
import { openClients, ownOf } from "../account.ts";
import type { CheckFinding } from "./finding.ts";
import { networkFault, remedyOf } from "./remedy.ts";

const ORGANIZATIONS_ASKED = 20;
const SKEW_MS_MAX = 60_000;
/** The oldest event may be forgotten while the service is asked. */
const MARGIN_MS = 3_600_000;

/** Asks the service with this account's key, and explains every refusal. */
export async function* checkAccount(
  config: AccountConfig,
  shard: Shard | undefined,
  signal: AbortSignal,
): AsyncGenerator<CheckFinding> {
  const subject = `account ${config.name}`;
  const clients = openClients(config, systemClock, 4);
  try {
    const listed = yield* checkManagement(config, clients.management, subject, signal);
    const organizations = ownOf(shard, listed?.map((id) => ({ id })) ?? null)?.map(({ id }) => id);
    if (shard !== undefined) yield shareFinding(subject, shard, organizations);
    if (config.provider !== undefined && ownsOrganization(shard, null))
      yield await checkScope(
        config,
        clients.insights,
        { provider: config.provider },
        `${subject}, provider ${config.provider}`,
        signal,
      );
    const scopes: InsightsScope[] =
      organizations === undefined
        ? [{}]
        : organizations.slice(0, ORGANIZATIONS_ASKED).map((id) => ({ organizations: [id] }));
    for (const scope of scopes)
      yield await checkScope(
        config,
        clients.insights,
        scope,
        `${subject}${scope.organizations ? `, organization ${scope.organizations[0]}` : ""}`,
        signal,
      );
    if (organizations !== undefined && organizations.length > ORGANIZATIONS_ASKED)
      yield {
        subject,
        ok: true,
        message: `${organizations.length - ORGANIZATIONS_ASKED} more organizations were not asked one by one`,
      };
  } finally {
    await clients.close();
  }
}

function shareFinding(
  subject: string,
  shard: Shard,
  organizations: readonly string[] | undefined,
): CheckFinding {
  const share =
    organizations === undefined
      ? "the key's own organization"
      : organizations.length === 0
        ? "none of its organizations"
        : `${organizations.length} of its organizations`;
  return { subject, ok: true, message: `shard ${shardText(shard)} reads ${share}` };
}

async function* checkManagement(
  config: AccountConfig,
  management: ReturnType<typeof openClients>["management"],
  subject: string,
  signal: AbortSignal,
) {
  if (config.organizations === undefined) return undefined;
  if (config.organizations !== "all") return config.organizations;
  try {
    const ids: string[] = [];
    for await (const organization of management.organizations(signal)) ids.push(organization._id);
    yield {
      subject,
      ok: ids.length > 0,
      message:
        ids.length > 0
          ? `the service lists ${ids.length} organizations`
          : "the service lists no organization for this key: name them in `organizations`, or leave that out for a single tenant",
    };
    return ids;
  } catch (error) {
    yield {
      subject,
      ok: false,
      message: `the list of organizations cannot be read: ${sentence(error)} ${networkFault(error) ?? "Check the key and managementUrl, or name the organizations in the config"}`,
    };
    return [];
  }
}

async function checkScope(
  config: AccountConfig,
  insights: InsightsClient,
  scope: InsightsScope,
  subject: string,
  signal: AbortSignal,
): Promise<CheckFinding> {
  const nowMs = Date.now();
  const query = { service: config.services, startTime: new Date(nowMs - 86_400_000).toISOString(), limit: 1 };
  try {
    const page = await insights.events(query, scope, { signal });
    // A proxy's page has status 200 too; only the body shows the difference.
    scanPage((await page.body()).bytes);
    const skewMs = page.head.dateMs === undefined ? 0 : nowMs - page.head.dateMs;
    if (Math.abs(skewMs) > SKEW_MS_MAX) {
      return {
        subject,
        ok: true,
        warning: true,
        message: `Insights answers; this machine's clock is ${formatDuration(Math.abs(skewMs))} ${skewMs > 0 ? "ahead" : "behind"} (the service's time is used, nothing is lost)`,
      };
    }
    return await checkHistory(config, insights, scope, subject, signal);
  } catch (error) {
    if (signal.aborted) throw error;
    return {
      subject,
      ok: false,
      message: `${sentence(error)} ${await remedyOf(config, scope, error, signal)}`,
    };
  }
}

/** A plan that keeps less than the config says answers 402 for older time; `run` would show it as gaps. */
async function checkHistory(
  config: AccountConfig,
  insights: InsightsClient,
  scope: InsightsScope,
  subject: string,
  signal: AbortSignal,
): Promise<CheckFinding> {
  const oldestMs = Date.now() - config.retention + MARGIN_MS;
  const query = {
    service: config.services,
    startTime: new Date(oldestMs).toISOString(),
    endTime: new Date(oldestMs + MARGIN_MS).toISOString(),
    limit: 1,
  };
  try {
    await (await insights.events(query, scope, { signal })).body();
  } catch (error) {
    if (!(error instanceof NotEntitledError)) throw error;
    return {
      subject,
      ok: true,
      warning: true,
      message: `Insights answers for the last day, and refuses the oldest events of the last ${formatDuration(config.retention)}: ${sentence(error)} Set the account's \`retention\` to what the plan keeps, and \`since\` to no more, or older time is reported as gaps.`,
    };
  }
  return { subject, ok: true, message: "Insights answers" };
}

/** The error with one full stop at its end. */
function sentence(error: unknown): string {
  return explain(error).replace(/[.\s]*$/, ".");
}
