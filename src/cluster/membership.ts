import type { ConnectKafka } from "../core/kafka.ts";
import { assignLanes, type MemberFacts } from "./assign.ts";
import type { FenceInstant } from "./self-fence.ts";
import { topicsOf } from "./topic-names.ts";

/*
 * Membership in the group that divides the lanes. The group says who should run a lane; the fence of the changelog says
 * who may. States: joining, joined (heartbeats succeed), lost (the client has given up; a new one joins after a while).
 */

export interface MembershipOptions {
  readonly name: string;
  readonly lanes: number;
  readonly sessionTimeoutMs: number;
  readonly connect: ConnectKafka;
  /** Asked at every join. */
  facts(): MemberFacts;
  /** The lanes that this machine should run now. */
  assigned(lanes: readonly number[]): void;
  /** A heartbeat that was sent at this time has succeeded. */
  alive(sentAt: FenceInstant): void;
  /** The client reports; for the log. */
  trouble(error: unknown): void;
}

const ASSIGNER = "tidemark-lanes";
const AGAIN_MS = 2000;

/** Takes part in the group until the signal aborts. */
export async function joinGroup(options: MembershipOptions, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await joinOnce(options, signal).catch(options.trouble);
    await Promise.race([new Promise((resolve) => setTimeout(resolve, AGAIN_MS)), untilAborted(signal)]);
  }
}

/** Ends when the signal aborts, or when the client gives up. */
async function joinOnce(options: MembershipOptions, signal: AbortSignal): Promise<void> {
  const { name, lanes, sessionTimeoutMs, facts, assigned, alive, trouble } = options;
  const client = await options.connect(signal);
  try {
    await client.join(
      {
        ...{ name, topic: topicsOf(name).lanes, sessionTimeoutMs, assigner: ASSIGNER, assigned, trouble },
        facts: () => JSON.stringify(facts()),
        assign: (members) =>
          assignLanes(
            members.map((member) => ({ id: member.id, facts: JSON.parse(member.facts) as MemberFacts })),
            lanes,
          ),
        alive: (wallMs) =>
          alive({ wallMs, monotonicMs: performance.now() - Math.max(0, Date.now() - wallMs) }),
      },
      signal,
    );
  } finally {
    client.end();
  }
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
