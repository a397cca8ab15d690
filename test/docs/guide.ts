import { expect } from "vitest";
import { parse } from "yaml";
import type { World } from "../support/world.ts";
import { linesToRun, variablesOf, wordsOf } from "./lines.ts";
import { blocks } from "./pages.ts";

export interface Guide {
  /** What the test changes in each sink of the page's config, by name: addresses, mostly. */
  readonly sinks: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  /** In place of the page's own variables, where the page's example value cannot work. */
  readonly env?: Readonly<Record<string, string>>;
  readonly more?: readonly string[];
  /** Runs a command of another program. */
  readonly other?: (command: string) => Promise<void> | void;
}

/**
 * Runs the commands of a destination's guide with the config that the guide shows above them, against the
 * simulated service and a destination of the test.
 */
export async function runGuide(world: World, page: string, guide: Guide): Promise<void> {
  const lines = linesToRun(page);
  expect(lines.some(({ command }) => command.startsWith("tidemark "))).toBe(true);
  const config = world.configure({ sinks: sinksOf(page, guide.sinks), more: guide.more ?? [] });
  let env: Record<string, string> = {};
  for (const { place, command } of lines) {
    const words = wordsOf(command);
    if (words[0] === "export") env = { ...env, ...variablesOf(command), ...guide.env };
    else if (words[0] !== "tidemark") await guide.other!(command);
    else if (words[1] === "run" && words.length === 2) await runUntilDelivered(world, config, env);
    else {
      const outcome = await world.run([...words.slice(1), "-c", config], { env: { ...guide.env, ...env } });
      expect(outcome.code, `${place}: ${outcome.stdout}\n${outcome.stderr}`).toBe(0);
    }
  }
}

/** The sinks of the configs above the page's first command; of two with one name, the later one. */
function sinksOf(page: string, over: Guide["sinks"]): string[] {
  const first = linesToRun(page)[0]!;
  const above = blocks.filter(
    (block) => block.page === page && block.kind === "yaml" && block.line < Number(first.place.split(":")[1]),
  );
  const sinks = new Map<string, Record<string, unknown>>();
  for (const { text } of above)
    for (const sink of (parse(text) as { sinks: Record<string, unknown>[] }).sinks)
      sinks.set(String(sink.name), sink);
  expect([...sinks.keys()].sort()).toEqual(Object.keys(over).sort());
  return [...sinks].map(([name, sink]) => JSON.stringify({ ...sink, ...over[name] }));
}

interface Status {
  readonly sinks: readonly {
    readonly name: string;
    readonly state: string;
    readonly lagEvents: number;
    readonly position: string;
  }[];
  readonly status: { readonly totals: { readonly events: number } };
}

const NO_STATUS = JSON.stringify({ sinks: [], status: { totals: { events: 0 } } } satisfies Status);

/** `tidemark run` until every event that the service has is read, and every sink has everything, then Ctrl-C. */
export async function runUntilDelivered(
  world: World,
  config: string,
  env: Readonly<Record<string, string>> = {},
): Promise<void> {
  const stop = new AbortController();
  const running = world.run(["run", "-c", config], { env, signal: stop.signal });
  try {
    await expect
      .poll(
        async () => {
          // No state of the program says that all is read: organizations that are not known yet have no windows.
          const served = world.served().length;
          const { stdout } = await world.run(["status", "--json", "-c", config], { env });
          const { sinks, status } = JSON.parse(stdout || NO_STATUS) as Status;
          const { events } = status.totals;
          if (events < served) return `${events} of ${served} events read`;
          // The reported state is up to some seconds old; positions are not.
          const isDone = ({ lagEvents, position }: Status["sinks"][number]) =>
            lagEvents === 0 && !position.endsWith(":0:0:");
          return sinks.length > 0 && sinks.every(isDone)
            ? "delivered"
            : JSON.stringify(sinks.map(({ name, state, lagEvents }) => [name, state, lagEvents]));
        },
        { timeout: 400_000, interval: 200 },
      )
      .toBe("delivered");
  } finally {
    stop.abort(new Error("Ctrl-C"));
  }
  const { code, stdout, stderr } = await running;
  expect(code, stdout + stderr).toBe(0);
}
