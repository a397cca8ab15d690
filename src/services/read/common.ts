import {
  decide,
  type Fields,
  flagLeaf,
  type Leaf,
  listLeaf,
  type Meaning,
  type Outcome,
  type Party,
  textLeaf,
} from "../../core/meaning.ts";
import { application } from "./application.ts";
import { associationOf } from "./association.ts";
import { device } from "./device.ts";
import { effectsOf } from "./effects.ts";
import { party } from "./party.ts";
import { networkOf, placeOf } from "./place.ts";
import { userAgentOf } from "./user-agent.ts";
import type { Writable } from "./writable.ts";

/*
 * Reading iterates over the fields that an event has instead of looking up those that it may have. Events
 * come in so many shapes that each look-up is a slow search, and most would find nothing.
 */

/** Reads the fields that nearly every event has under the same names; a service's file adds and corrects. */
export function common(event: Fields): Meaning {
  const meaning: Writable<Meaning> = emptyMeaning();
  const outcome = meaning.outcome as Writable<Outcome>;
  const origin: Writable<NonNullable<Meaning["origin"]>> = {};
  let association: unknown;
  let email: Leaf | undefined;
  for (const key in event) {
    const value = event[key];
    switch (key) {
      case "initiated_by":
        meaning.actor = party(value);
        break;
      case "jc_initiated_by_email":
        email = textLeaf(value, event, key);
        break;
      case "resource":
        meaning.target = party(value);
        break;
      case "association":
        association = value;
        break;
      case "success":
        outcome.by = flagLeaf(value, event, key);
        break;
      case "error_message":
        outcome.reason = textLeaf(value, event, key);
        break;
      case "error_code":
        outcome.code = textLeaf(value, event, key);
        break;
      case "client_ip":
        origin.ip = textLeaf(value, event, key);
        break;
      case "geoip":
        origin.place = placeOf(value);
        break;
      case "asn":
        origin.network = networkOf(value, event, key);
        break;
      case "useragent":
      case "user_agent":
        origin.userAgent = userAgentOf(value, event, key);
        break;
      case "system":
        meaning.device = device(value);
        break;
      case "application":
        meaning.application = application(value);
        break;
      case "changes":
        meaning.changes = listLeaf(value, event, key);
        break;
      case "message":
        meaning.message = textLeaf(value, event, key);
        break;
    }
  }
  if (origin.ip || origin.place || origin.network || origin.userAgent) meaning.origin = origin;
  if (email) meaning.actor = withEmail(meaning.actor, email);
  outcome.is = outcomeOf(outcome.by, event.event_type);
  linked(meaning, event, association);
  Object.assign(meaning, effectsOf(event, meaning));
  return meaning;
}

/** All fields in one order, so that every meaning has the same hidden class. */
function emptyMeaning(): Writable<Meaning> {
  return {
    actor: undefined,
    subject: undefined,
    target: undefined,
    associate: undefined,
    link: undefined,
    outcome: { is: "unknown", by: undefined, reason: undefined, code: undefined },
    origin: undefined,
    device: undefined,
    application: undefined,
    authentication: undefined,
    item: undefined,
    processName: undefined,
    changes: undefined,
    effects: [],
    judge: undefined,
    privileges: [],
    risk: undefined,
    category: undefined,
    message: undefined,
  };
}

/** Absent success is unknown, never failure, unless the event type itself says it: `sso_auth_failed`. */
function outcomeOf(by: Leaf<unknown> | undefined, eventType: unknown): Outcome["is"] {
  if (by !== undefined) return decide(by) ? "success" : "failure";
  if (typeof eventType !== "string") return "unknown";
  if (eventType.endsWith("_failed")) return "failure";
  return eventType.endsWith("_success") ? "success" : "unknown";
}

/** SSO events have the e-mail of the actor at the top level. */
function withEmail(actor: Party | undefined, email: Leaf): Party {
  if (actor === undefined) return { kind: "user", email };
  return actor.email === undefined ? { ...actor, email } : actor;
}

function linked(meaning: Writable<Meaning>, event: Fields, association: unknown): void {
  const found = associationOf(association, meaning.target, event.event_type);
  if (found === undefined) return;
  meaning.link = found.link;
  meaning.associate = found.associate;
  meaning.target = found.target;
}

/** An outcome that is a word instead of a boolean, such as `result` or `status`. */
export function outcomeByWord(
  outcome: Outcome,
  word: Leaf | undefined,
  successes: readonly string[],
  failures: readonly string[],
): Outcome {
  if (outcome.by !== undefined || word === undefined) return outcome;
  const value = decide(word).toLowerCase();
  const is = successes.includes(value) ? "success" : failures.includes(value) ? "failure" : "unknown";
  return { ...outcome, is };
}
