import type { App } from "../src/app.ts";
import { preparePage } from "../src/core/prepare-page.ts";
import type { ModelEvent } from "./events.ts";
import { organizationId } from "./plan.ts";

/** The events whose identity the state file holds, whether or not a sink got them. */
export async function heldInState(
  { journal }: App,
  events: readonly ModelEvent[],
): Promise<ReadonlySet<ModelEvent>> {
  const held = new Set<ModelEvent>();
  for (const event of events) {
    const organization = organizationId(event.organization);
    const { identities, timesMs } = preparePage(Buffer.from(`[${event.text}]`), {
      organizations: [organization],
      provider: null,
    });
    const known = await journal.held([organization], timesMs[0]!, timesMs[0]! + 1);
    if (known.has(identities)) held.add(event);
  }
  return held;
}
