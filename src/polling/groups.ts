/** An organization and how many events an hour it has. */
export interface Member {
  readonly id: string;
  readonly traffic: number;
}

const GROUP_EVENTS_PER_HOUR_MAX = 2000;

/**
 * Quiet organizations are read together, busy ones alone. A group's header block stays within the limit.
 * Stable: the same members in the same order give the same groups, and a little more traffic moves nobody.
 */
export function groupsOf(
  members: readonly Member[],
  headerBytesMax: number,
  headerBytes: (organizations: readonly string[]) => number,
): readonly (readonly string[])[] {
  const sorted = [...members].sort((a, b) => (a.id < b.id ? -1 : 1));
  const alone = sorted.filter((member) => member.traffic > GROUP_EVENTS_PER_HOUR_MAX / 4);
  const quiet = sorted.filter((member) => member.traffic <= GROUP_EVENTS_PER_HOUR_MAX / 4);
  const fixedBytes = headerBytes([]);
  const groups: string[][] = alone.map((member) => [member.id]);
  let group: string[] = [];
  let bytes = fixedBytes;
  let traffic = 0;
  for (const member of quiet) {
    const memberBytes = headerBytes([member.id]) - fixedBytes;
    const full = bytes + memberBytes > headerBytesMax || traffic + member.traffic > GROUP_EVENTS_PER_HOUR_MAX;
    if (group.length > 0 && full) {
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
