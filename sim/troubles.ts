import { type Answer, json } from "./answer.ts";
import type { Effect } from "./faults.ts";
import { type Plan, START_MS } from "./plan.ts";
import type { Random } from "./random.ts";
import type { Tally } from "./tally.ts";

/** The service's faults: which of them are in force, and how they change an answer. Every hit is counted. */
export interface Troubles {
  /** The answer of a service that fails whatever it was asked. */
  answer(): Answer | undefined;
  /** The answer to a request that names this organization and begins at this time. */
  refusal(organization: number, startMs: number): Answer | undefined;
  /** The organizations cannot be listed. */
  listAnswer(): Answer | undefined;
  /** Whether the fault is in force and hits this request. */
  hits(type: "cursors" | "wrong_count" | "wrong_token" | "short_page" | "cut_body"): boolean;
  /** How far the Date header is off. */
  skewMs(): number;
  /** How far the replica that answers with whole events is behind. */
  lagMs(): number;
}

const MESSAGES: Readonly<Record<number, string>> = {
  402: "Directory Insights is not enabled for this organization",
  403: "Forbidden",
  404: "Organization not found",
  500: "Internal Server Error",
};

export function createTroubles(plan: Plan, nowMs: () => number, random: Random, tally: Tally): Troubles {
  function inForce(): readonly Effect[] {
    const atMs = nowMs() - START_MS;
    return plan.faults.flatMap((fault) =>
      fault.kind === "service" && fault.fromMs <= atMs && atMs < fault.toMs ? [fault.effect] : [],
    );
  }

  function counted(kind: string, answer: Answer): Answer {
    tally.hit(kind);
    return answer;
  }

  function troubleOf(effect: Effect): Answer | undefined {
    switch (effect.type) {
      case "refuse":
        return { kind: "refused" };
      case "unauthorized":
        return json(401, { message: "Unauthorized" });
      case "bad_request":
        return json(400, { message: "Bad Request" });
      case "throttle": {
        if (!random.chance(effect.share)) return undefined;
        const headers = effect.retryAfterS === null ? {} : { "retry-after": String(effect.retryAfterS) };
        return json(429, { message: "Too many requests" }, headers);
      }
      case "unavailable":
        return random.chance(effect.share) ? json(effect.status, { message: "Try again" }) : undefined;
      case "hang":
        return random.chance(effect.share) ? { kind: "hang" } : undefined;
      case "nonsense":
        return random.chance(effect.share)
          ? { kind: "answer", status: 200, headers: {}, body: "<html>Welcome</html>" }
          : undefined;
      case "cut":
        return effect.where === "head" && random.chance(effect.share) ? { kind: "cut_head" } : undefined;
      default:
        return undefined;
    }
  }

  return {
    answer() {
      for (const effect of inForce()) {
        const answer = troubleOf(effect);
        if (answer !== undefined) return counted(effect.type === "cut" ? "cut_head" : effect.type, answer);
      }
      return undefined;
    },
    refusal(organization, startMs) {
      for (const effect of inForce()) {
        if (effect.type === "tenant" && effect.organization === organization)
          return counted(
            `tenant_${effect.status}`,
            json(effect.status, { message: MESSAGES[effect.status] }),
          );
        if (effect.type === "history" && effect.organization === organization)
          if (startMs < nowMs() - effect.keptMs)
            return counted("history", json(402, { message: "Your plan does not include this much history" }));
      }
      return undefined;
    },
    listAnswer() {
      const broken = inForce().find((effect) => effect.type === "list");
      if (broken?.status === 200) return counted("list_empty", json(200, { results: [], totalCount: 0 }));
      return broken && counted("list", json(broken.status, { message: "The list is not available" }));
    },
    hits(type) {
      const isHit = inForce().some((effect) => {
        if (type === "cut_body")
          return effect.type === "cut" && effect.where === "body" && random.chance(effect.share);
        return effect.type === type && (effect.type === "cursors" || random.chance(effect.share));
      });
      if (isHit) tally.hit(type);
      return isHit;
    },
    skewMs() {
      const wrong = inForce().find((effect) => effect.type === "date");
      if (wrong !== undefined) tally.hit("date");
      return wrong?.skewMs ?? 0;
    },
    lagMs() {
      const behind = inForce().find((effect) => effect.type === "replica");
      if (behind !== undefined) tally.hit("replica");
      return behind?.lagMs ?? 0;
    },
  };
}
