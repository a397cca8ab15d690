/**
 * A position is kept under the sink's name. Where two names were swapped, each sink would go on from the other's position:
 * one destination would lack events and the other get some twice (R14). Gives a sentence for each such sink.
 */
export function swappedSinks(
  now: ReadonlyMap<string, string>,
  kept: ReadonlyMap<string, string>,
  known: ReadonlySet<string>,
): string[] {
  return [...now].flatMap(([name, settings]) => {
    const before = kept.get(name);
    if (before === undefined || before === settings || !known.has(name)) return [];
    const other = [...kept].find(
      ([one, had]) => one !== name && had === settings && known.has(one) && now.get(one) !== settings,
    );
    if (other === undefined) return [];
    return [
      `the sink "${name}" has the settings that "${other[0]}" had so far, and would continue there from its own position: swap the names back, or, if this is intended, give the sink a new name and a start of its own`,
    ];
  });
}
