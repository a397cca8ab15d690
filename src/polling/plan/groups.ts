import type { RosterEntry } from "../../core/roster.ts";
import type { PollContext } from "../context.ts";

/** An organization and its events an hour; one that is `alone` is not read together with others. */
export interface Member {
  readonly id: string;
  readonly traffic: number;
  readonly alone?: boolean;
}

const GROUP_EVENTS_PER_HOUR_MAX = 2000;
const BUSY_EVENTS_PER_HOUR_MIN = GROUP_EVENTS_PER_HOUR_MAX / 4;

/**
 * Quiet organizations are read together, busy ones alone. A group's header block stays within the limit.
 * Stable: the same members give the same groups, and a little more traffic changes no group.
 */
export function groupMembers(
  members: readonly Member[],
  headerBytesMax: number,
  headerBytes: (organizations: readonly string[]) => number,
): readonly (readonly string[])[] {
  const sorted = [...members].sort((a, b) => (a.id < b.id ? -1 : 1));
  const isAlone = (member: Member) => member.alone || member.traffic > BUSY_EVENTS_PER_HOUR_MIN;
  const fixedBytes = headerBytes([]);
  const groups: string[][] = sorted.filter(isAlone).map((member) => [member.id]);
  let group: string[] = [];
  let bytes = fixedBytes;
  let traffic = 0;
  for (const member of sorted) {
    if (isAlone(member)) continue;
    const memberBytes = headerBytes([member.id]) - fixedBytes;
    const isFull =
      bytes + memberBytes > headerBytesMax || traffic + member.traffic > GROUP_EVENTS_PER_HOUR_MAX;
    if (group.length > 0 && isFull) {
      groups.push(group);
      group = [];
      bytes = fixedBytes;
      traffic = 0;
    }
    group.push(member.id);
    bytes += memberBytes;
    traffic += member.traffic;
  }
  if (group.length > 0) groups.push(group);
  return groups;
}

/** The same with the account's limits, and with the organizations that have to be read alone. */
export function groupsFor(
  { learned, source, clock }: PollContext,
  entries: readonly Pick<RosterEntry, "id" | "traffic">[],
): readonly (readonly string[])[] {
  const isUntil = (times: ReadonlyMap<string, number>, id: string) => (times.get(id) ?? 0) > clock.now();
  // A suspect that joined the others before it is served would make them fail again.
  const isUnproven = (id: string) => isUntil(learned.suspectUntilMs, id) && !learned.servedSuspects.has(id);
  const members = entries.map(({ id, traffic }) => ({
    id,
    traffic,
    alone: isUntil(learned.aloneUntilMs, id) || isUnproven(id),
  }));
  return groupMembers(members, learned.headerBytesMax, (organizations) =>
    source.headerBytes({ organizations }),
  );
}
