import { rangesText } from "../../core/shard.ts";
import type { CheckFinding } from "./finding.ts";

export type Said = Omit<CheckFinding, "subject">;

const LANES_AT_ONCE = 16;

/** Looks at each lane of a cluster. Lanes with the same finding share a line. */
export async function* checkLanes(
  subject: string,
  lanes: number,
  look: (lane: number) => AsyncIterable<Said>,
): AsyncGenerator<CheckFinding> {
  const found = new Map<string, { readonly said: Said; readonly lanes: number[] }>();
  async function check(lane: number): Promise<void> {
    for await (const said of look(lane)) {
      const known = found.get(JSON.stringify(said));
      if (known === undefined) found.set(JSON.stringify(said), { said, lanes: [lane] });
      else known.lanes.push(lane);
    }
  }
  const all = Array.from({ length: lanes }, (_, lane) => lane);
  for (let at = 0; at < lanes; at += LANES_AT_ONCE)
    await Promise.all(all.slice(at, at + LANES_AT_ONCE).map(check));
  for (const { said, lanes: its } of found.values()) {
    const word = its.length === 1 ? "lane" : "lanes";
    yield { subject: `${subject}, ${word} ${rangesText(its.sort((a, b) => a - b))}`, ...said };
  }
}
