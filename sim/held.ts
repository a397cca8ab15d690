import type { App } from "../src/app.ts";
import { preparePage } from "../src/core/prepare-page.ts";
import type { ModelEvent } from "./events.ts";
import { organizationId, PORTAL, PROVIDER_ID } from "./plan.ts";

/** The events whose identity the state file holds, whether or not a sink got them. */
export async function heldInState(
  { journal }: App,
  events: readonly ModelEvent[],
): Promise<ReadonlySet<ModelEvent>> {
  const held = new Set<ModelEvent>();
  for (const event of events) {
    const attribution =
      event.organization === PORTAL
        ? { organizations: [], provider: PROVIDER_ID }
        : { organizations: [organizationId(event.organization)], provider: null };
    const { identities, timesMs, organizations } = preparePage(Buffer.from(`[${event.text}]`), attribution);
    const known = await journal.held(organizations, timesMs[0]!, timesMs[0]! + 1);
    if (known.has(identities)) held.add(event);
  }
  return held;
}
