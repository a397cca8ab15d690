import type { MachineBoard } from "../../cluster/machines.ts";
import { joinGroup } from "../../cluster/membership.ts";
import { refusedRight } from "../../cluster/rights.ts";
import { instantNow } from "../../cluster/self-fence.ts";
import { configDigest } from "../../config/cluster.ts";
import type { ClusterConfig } from "../../config/cluster-schema.ts";
import type { Config } from "../../config/schema.ts";
import type { Alarms } from "../../core/alarms.ts";
import { explain } from "../../core/errors.ts";
import type { ConnectKafka } from "../../core/kafka.ts";
import type { Log } from "../../core/log.ts";
import { pause } from "../../core/pause.ts";
import { createFitness, type FitnessLimits } from "./fitness.ts";
import type { LaneSet } from "./lane-set.ts";

/*
 * A machine as a member of the group (C13):
 *   joined   the group assigns lanes to it
 *   away     it could do nothing for its lanes while others could: it has closed them and left, and joins again later
 * It also leaves and joins at once when a lane turns out to have a newer schema, to tell the group what it knows (C14).
 */

const WATCH_MS = 5000;

export interface MemberOptions {
  readonly config: Config & { readonly cluster: ClusterConfig };
  readonly name: string;
  readonly lanes: number;
  readonly schema: number;
  readonly connect: ConnectKafka;
  readonly board: MachineBoard;
  readonly alarms: Alarms;
  readonly log: Log;
  readonly limits: FitnessLimits;
  readonly set: LaneSet;
}

export interface GroupMembership {
  /** A lane runs here, so its rows have the schema of this program. */
  knowsSchema(): void;
  /** A lane has a newer schema: the group has to know that this machine cannot run it. */
  tooNew(): void;
  run(signal: AbortSignal): Promise<void>;
  /** Leaves the group for a while when this machine is of no use in it. */
  watch(signal: AbortSignal): Promise<void>;
}

export function createMember(options: MemberOptions): GroupMembership {
  const { config, name, lanes, schema, connect, board, alarms, log, limits, set } = options;
  const { cluster } = config;
  let laneSchema = 0;
  let rejoin = new AbortController();
  let isAway = false;

  function raiseLeft(message: string): void {
    const remedy = "See its log for the cause. The other machines run its lanes; it joins again by itself.";
    alarms.raise({ kind: "machine_left", subject: name, message, remedy, severity: "warning" });
  }

  async function leaveForAWhile(reason: string, signal: AbortSignal): Promise<void> {
    raiseLeft(`This machine has left the cluster for a while: ${reason}.`);
    log.warn({ reason }, "This machine leaves the group for a while.");
    isAway = true;
    rejoin.abort();
    set.want([]);
    await pause(limits.stayAwayMs, signal);
    isAway = false;
    alarms.clear("machine_left", name);
  }

  function join(signal: AbortSignal): Promise<void> {
    return joinGroup(
      {
        ...{ name: cluster.name, lanes, connect, sessionTimeoutMs: cluster.sessionTimeout },
        facts: () => ({
          ...{ machine: name, schema, laneSchema, config: configDigest(config) },
          held: set.held(),
        }),
        assigned(own) {
          if (isAway) return;
          alarms.clear("machine_left", name);
          log.info({ lanes: own }, "The group has assigned lanes.");
          set.want(own);
          set.confirm(instantNow());
        },
        alive: (at = instantNow()) => set.confirm(at),
        trouble(error) {
          log.warn({ err: explain(error) }, "The group's client reported trouble.");
          const refused = refusedRight(error, cluster.name);
          if (refused !== undefined) raiseLeft(`This machine cannot join the cluster: ${refused.message}`);
        },
      },
      signal,
    );
  }

  return {
    knowsSchema() {
      laneSchema = Math.max(laneSchema, schema);
    },
    tooNew() {
      laneSchema = schema + 1;
      rejoin.abort();
    },
    async run(signal) {
      while (!signal.aborted) {
        while (isAway && !signal.aborted) await pause(WATCH_MS / 10, signal);
        rejoin = new AbortController();
        await join(AbortSignal.any([signal, rejoin.signal]));
      }
    },
    async watch(signal) {
      const fitness = createFitness(limits.unfitMs);
      while (!signal.aborted) {
        await pause(Math.min(WATCH_MS, limits.unfitMs / 3), signal);
        const others = board.list(Date.now()).filter(({ machine }) => machine !== name);
        const reason = signal.aborted ? undefined : fitness.look(set.statuses(), others, performance.now());
        if (reason !== undefined) await leaveForAWhile(reason, signal);
      }
    },
  };
}
