/*
 * Who runs which lane (C13). The group's leader decides with this function; every member sends the facts that it needs.
 *   1. only members that know the schema of every lane (C14); the newest schema only when half of the members know it
 *   2. among them only members with the config of the majority (C15)
 *   3. a member keeps the lanes that it runs, up to its share; the others go to the members with the fewest
 */

/** The facts that a member sends when it joins. */
export interface MemberFacts {
  readonly machine: string;
  /** The newest migration that it knows. */
  readonly schema: number;
  /** The newest schema that it has seen in a lane. */
  readonly laneSchema: number;
  /** A digest of the accounts, sinks and imports of its config. */
  readonly config: string;
  readonly held: readonly number[];
}

export interface GroupMember {
  readonly id: string;
  readonly facts: MemberFacts;
}

export function assignLanes(
  members: readonly GroupMember[],
  lanes: number,
): ReadonlyMap<string, readonly number[]> {
  const takers = withConfigOfMajority(withFittingSchema(members), members).toSorted(byHeldThenId);
  const assigned = new Map<string, number[]>(members.map(({ id }) => [id, []]));
  if (takers.length === 0) return assigned;
  const share = Math.floor(lanes / takers.length);
  const more = lanes % takers.length;
  const left = new Set(Array.from({ length: lanes }, (_, lane) => lane));
  const quotas = takers.map(({ id, facts }, at) => ({
    list: assigned.get(id)!,
    held: facts.held,
    quota: share + (at < more ? 1 : 0),
  }));
  for (const { list, held, quota } of quotas) {
    for (const lane of held.toSorted((a, b) => a - b)) {
      if (list.length < quota && left.delete(lane)) list.push(lane);
    }
  }
  for (const { list, quota } of quotas) {
    for (const lane of left) {
      if (list.length >= quota) break;
      left.delete(lane);
      list.push(lane);
    }
  }
  return assigned;
}

/** C14: backward is never possible, forward only once half of the members can follow. */
function withFittingSchema(members: readonly GroupMember[]): readonly GroupMember[] {
  const least = Math.max(0, ...members.map(({ facts }) => facts.laneSchema));
  const able = members.filter(({ facts }) => facts.schema >= least);
  const newest = Math.max(0, ...able.map(({ facts }) => facts.schema));
  const newer = able.filter(({ facts }) => facts.schema === newest);
  const older = able.filter(({ facts }) => facts.schema !== newest);
  return newer.length * 2 >= members.length || older.length === 0 ? newer : older;
}

/** C15: two configs at once could start an import in two lanes. Of two equal halves the one that runs lanes wins. */
function withConfigOfMajority(
  able: readonly GroupMember[],
  members: readonly GroupMember[],
): readonly GroupMember[] {
  const weights = new Map<string, { members: number; held: number }>();
  for (const { facts } of members) {
    const weight = weights.get(facts.config) ?? { members: 0, held: 0 };
    weights.set(facts.config, {
      members: weight.members + 1,
      held: weight.held + facts.held.length,
    });
  }
  const order = [...weights].toSorted(
    ([a, one], [b, other]) => other.members - one.members || other.held - one.held || (a < b ? -1 : 1),
  );
  for (const [config] of order) {
    const having = able.filter(({ facts }) => facts.config === config);
    if (having.length > 0) return having;
  }
  return able;
}

function byHeldThenId(one: GroupMember, other: GroupMember): number {
  return other.facts.held.length - one.facts.held.length || (one.id < other.id ? -1 : 1);
}
