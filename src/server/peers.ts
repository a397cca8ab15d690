import { z } from "zod";
import type { Clock } from "../core/clock.ts";
import { explain } from "../core/errors.ts";
import { makeRequester, type Requester } from "../core/http/requester.ts";
import { parseShard } from "../core/shard.ts";
import type { PeersView, PeerView } from "../core/view/peers.ts";
import { type SinkView, sinkSchema } from "../core/view/sinks.ts";
import { type StatusView, statusSchema } from "../core/view/status.ts";
import type { View } from "../core/view.ts";
import type { PeersConfig } from "./config.ts";

const TIMEOUT_MS = 4000;
/** Several open pages share one round of questions. */
const FRESH_MS = 2000;

/** Newer versions may say more; what is missing here is an error. */
const statusOfPeer = z.object(statusSchema.shape);
const sinksOfPeer = z.object({ sinks: z.array(z.object(sinkSchema.shape)) });

export interface Peers {
  list(signal: AbortSignal): Promise<PeersView>;
  close(): Promise<void>;
}

/** This process and the others of the config, as one view. The others are asked with the config's token. */
export function createPeers(config: PeersConfig | undefined, view: View, clock: Clock): Peers {
  let requester: Promise<Requester> | undefined;
  let last: { readonly madeMs: number; readonly made: Promise<PeersView> } | undefined;

  function open(): Promise<Requester> {
    requester ??= makeRequester({
      destination: "the other shard",
      clock,
      timeoutMs: TIMEOUT_MS,
      tls: config?.tls,
      secrets: config?.token === undefined ? [] : [config.token],
    });
    return requester;
  }

  async function ask(address: string, path: string, signal: AbortSignal): Promise<unknown> {
    const url = new URL(path, address.endsWith("/") ? address : `${address}/`).toString();
    const token = config?.token?.reveal();
    const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const { status, text } = await (await open()).send({ method: "GET", url, headers }, signal);
    if (status !== 200) throw new Error(refusalOf(status, text));
    return JSON.parse(text);
  }

  async function peerAt(address: string, signal: AbortSignal): Promise<PeerView> {
    try {
      const [status, sinks] = await Promise.all([
        ask(address, "api/status", signal),
        ask(address, "api/sinks", signal),
      ]);
      return peerOf(address, statusOfPeer.parse(status), sinksOfPeer.parse(sinks).sinks);
    } catch (error) {
      return silent(address, error instanceof z.ZodError ? NO_TIDEMARK : explain(error));
    }
  }

  async function look(signal: AbortSignal): Promise<PeersView> {
    const own = peerOf(null, await view.status(), (await view.sinks()).sinks);
    const others = await Promise.all((config?.addresses ?? []).map((address) => peerAt(address, signal)));
    return viewOf(config !== undefined, [own, ...others.filter((peer) => !isSame(peer, own))]);
  }

  return {
    list(signal) {
      if (last === undefined || clock.now() - last.madeMs >= FRESH_MS) {
        const made = look(signal);
        last = { madeMs: clock.now(), made };
        made.catch(() => {
          last = undefined;
        });
      }
      return last.made;
    },
    close: async () => (await requester)?.close(),
  };
}

const NO_TIDEMARK = "Its answer is not that of a Tidemark of this version.";

function refusalOf(status: number, text: string): string {
  if (status === 401 || status === 403) return `It refuses the token of server.peers (${status}).`;
  if (status === 421) return "It does not answer to this host name: add it to its server.hosts.";
  return `It answered ${status}: ${text.slice(0, 200)}`;
}

/** The list may name this process too. */
function isSame(peer: PeerView, own: PeerView): boolean {
  return peer.problem === null && peer.shard === own.shard && peer.startedMs === own.startedMs;
}

function peerOf(address: string | null, status: StatusView, sinks: readonly SinkView[]): PeerView {
  const { version, shard, health, headline, startedMs, alarms, accounts, totals } = status;
  const trouble = [...sinks].sort((a, b) => rankOf(b) - rankOf(a) || b.lagMs - a.lagMs)[0];
  const isFine = trouble === undefined || (rankOf(trouble) === 0 && trouble.lagEvents === 0);
  return {
    ...{ address, problem: null, shard, version, health, headline, startedMs, alarms },
    lanes: null,
    organizations: totals.organizations,
    events: totals.events,
    deadLetters: totals.deadLetters,
    gaps: totals.gaps.gaps,
    liveLagMs: extreme(
      accounts.map(({ liveLagMs }) => liveLagMs),
      Math.max,
    ),
    lossInMs: extreme(
      accounts.map(({ lossInMs }) => lossInMs),
      Math.min,
    ),
    sinks: {
      running: sinks.filter(({ state }) => state === "running").length,
      all: sinks.length,
      worst: isFine
        ? null
        : {
            name: trouble.name,
            state: trouble.state,
            lagEvents: trouble.lagEvents,
            lagMs: trouble.lagMs,
            isFiltered: trouble.isFiltered,
          },
    },
  };
}

function rankOf({ state }: SinkView): number {
  return state === "running" || state === "opening" ? 0 : 1;
}

function extreme(list: readonly (number | null)[], choose: (...values: number[]) => number): number | null {
  const known = list.filter((value) => value !== null);
  return known.length === 0 ? null : choose(...known);
}

function silent(address: string, problem: string): PeerView {
  return {
    ...{ address, problem, shard: null, version: null, startedMs: null, liveLagMs: null, lossInMs: null },
    ...{ health: "unknown" as const, headline: "It does not answer.", alarms: [] },
    ...{ organizations: 0, events: 0, deadLetters: 0, gaps: 0 },
    sinks: { running: 0, all: 0, worst: null },
    lanes: null,
  };
}

const ORDER = { unknown: 0, bad: 1, degraded: 2, good: 3 };

function viewOf(configured: boolean, peers: readonly PeerView[]): PeersView {
  return {
    configured,
    kind: "shards",
    problems: configured ? layoutProblems(peers) : [],
    totals: totalsOfPeers(peers),
    peers: [...peers].sort(
      (a, b) => ORDER[a.health] - ORDER[b.health] || indexOf(a) - indexOf(b) || addressOf(a, b),
    ),
  };
}

export function totalsOfPeers(peers: readonly PeerView[]): PeersView["totals"] {
  const sum = (value: (peer: PeerView) => number) => peers.reduce((total, peer) => total + value(peer), 0);
  return {
    processes: peers.length,
    answering: sum(({ problem }) => (problem === null ? 1 : 0)),
    organizations: sum(({ organizations }) => organizations),
    events: sum(({ events }) => events),
    deadLetters: sum(({ deadLetters }) => deadLetters),
    alarms: sum(({ alarms }) => alarms.length),
  };
}

function indexOf({ shard }: PeerView): number {
  return shard === null ? -1 : (parseShard(shard)?.index ?? -1);
}

function addressOf(a: PeerView, b: PeerView): number {
  return (a.address ?? "") < (b.address ?? "") ? -1 : 1;
}

/** Shards that nothing reads, that two processes read, and layouts that do not fit together. */
function layoutProblems(peers: readonly PeerView[]): string[] {
  const answering = peers.filter(({ problem }) => problem === null);
  const shards = answering.flatMap(({ shard }) => (shard === null ? [] : [parseShard(shard)!]));
  const problems: string[] = [];
  const whole = answering.length - shards.length;
  if (whole > 0 && answering.length > 1)
    problems.push("A process without a shard reads all organizations beside the others.");
  const counts = new Set(shards.map(({ count }) => count));
  if (counts.size > 1)
    problems.push(`The shards are of different numbers: ${[...counts].sort((a, b) => a - b).join(" and ")}.`);
  else
    for (let index = 0; index < ([...counts][0] ?? 0); index++) {
      const found = shards.filter((shard) => shard.index === index).length;
      const name = `shard ${index}/${[...counts][0]}`;
      if (found === 0) problems.push(`No process that answers reads ${name}.`);
      if (found > 1) problems.push(`${found} processes read ${name}: their events arrive more than once.`);
    }
  return problems;
}
