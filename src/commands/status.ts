import { type Command, InvalidArgumentError } from "commander";
import { systemClock } from "../core/clock.ts";
import { organizationsQuerySchema } from "../core/view/organizations.ts";
import type { View } from "../core/view.ts";
import { sayIncomplete } from "./incomplete.ts";
import type { Io } from "./io.ts";
import { withConfig } from "./options.ts";
import { type Snapshot, statusText } from "./status-text.ts";

interface Flags {
  readonly config: string;
  readonly json?: boolean;
  readonly watch?: number | true;
  readonly top: number;
}

const WATCH_SECONDS = 2;
const WIDTH = 120;
const ALTERNATE_SCREEN = "\x1b[?1049h\x1b[?25l";
const NORMAL_SCREEN = "\x1b[?25h\x1b[?1049l";

/** `tidemark status`: what the page shows, in the terminal, from the state file alone. */
export function registerStatus(
  program: Command,
  io: Io,
  openView: (configFile: string) => Promise<{ readonly view: View; close(): Promise<void> }>,
): void {
  withConfig(program.command("status"), "tidemark status --watch")
    .summary("how everything is, as a table; --watch keeps it up to date")
    .description(
      "Shows accounts, sinks, alarms and the organizations that are furthest behind. Works beside a running process and without one.",
    )
    .option("--json", "print one JSON object instead of the table; with --watch one a line")
    .option("--watch [seconds]", "show it again and again, like top; e.g. --watch 5", positive)
    .option("--top <count>", "organizations to list; e.g. --top 30", positive, 10)
    .action(async (flags: Flags) => {
      const { view, close } = await openView(flags.config);
      try {
        if (flags.watch !== undefined) return await watch(view, flags, io);
        const found = await look(view, flags);
        io.stdout.write(text(found, flags, io));
        sayIncomplete(io, found, found.status, found.organizations);
      } finally {
        await close();
      }
    });
}

/** Ends with the signal; the terminal is left as it was found. */
async function watch(view: View, flags: Flags, io: Io): Promise<void> {
  const everyMs = (flags.watch === true ? WATCH_SECONDS : flags.watch!) * 1000;
  const onScreen = io.interactive && flags.json !== true;
  if (onScreen) io.stdout.write(ALTERNATE_SCREEN);
  try {
    while (!io.signal.aborted) {
      const shown = text(await look(view, flags), flags, io);
      io.stdout.write(onScreen ? `\x1b[H${fitted(shown, io)}\x1b[J` : shown);
      await systemClock.sleep(everyMs, io.signal).catch(() => {});
    }
  } finally {
    if (onScreen) io.stdout.write(NORMAL_SCREEN);
  }
}

async function look(view: View, flags: Flags): Promise<Snapshot> {
  const query = organizationsQuerySchema.parse({ limit: Math.min(1000, flags.top) });
  return {
    status: await view.status(),
    ...(await view.sinks()),
    organizations: await view.organizations(query),
  };
}

function text(snapshot: Snapshot, flags: Flags, io: Io): string {
  if (flags.json === true) return `${JSON.stringify(snapshot)}\n`;
  const color = io.interactive && !io.env.NO_COLOR;
  return statusText(snapshot, { width: terminalOf(io).columns ?? WIDTH, color });
}

/** No more lines than the terminal has, each cleared to its end, so that nothing flickers or scrolls. */
function fitted(shown: string, io: Io): string {
  const rows = terminalOf(io).rows ?? 50;
  return shown
    .trimEnd()
    .split("\n")
    .slice(0, rows - 1)
    .map((line) => `${line}\x1b[K\n`)
    .join("");
}

function terminalOf(io: Io): { readonly columns?: number; readonly rows?: number } {
  return io.stdout as { columns?: number; rows?: number };
}

function positive(given: string): number {
  const value = Number(given);
  if (!Number.isFinite(value) || value <= 0) throw new InvalidArgumentError("It must be a number above 0.");
  return value;
}
