import type { LaneSummary, MachineBoard } from "../../cluster/machines.ts";
import { type ReportedLane, withoutLostLanes } from "../../cluster/owners.ts";
import type { Alarms } from "../../core/alarms.ts";
import type { LaneQuestion, LanesAnswer, RouteCall } from "../../core/lane-requests.ts";
import type { RatesView } from "../../core/view/status.ts";
import type { View } from "../../core/view.ts";
import { errorOf } from "../requests.ts";
import { type AskedLanes, SilentError } from "./answers.ts";
import type { Messenger } from "./messenger.ts";
import type { RemoteLanesView } from "./view.ts";

/** Answers of other machines are used for this time. */
const FRESH_MS = 4000;
const ANSWER_MS = 5000;
const KEPT_ANSWERS = 500;
/** An alarm ends when no question has gone without an answer for so long: nobody may look at the page any more. */
const SILENT_MS = 60_000;
const SETTLE_MS = 5000;

type OwnLane = Pick<LaneSummary, "lane" | "sinceMs">;

export interface RemoteMachinesOptions {
  /** This machine's name; undefined: a command, which runs no lanes. */
  readonly own: string | undefined;
  /** The lanes that run here. */
  running?(): readonly OwnLane[];
  readonly board: Pick<MachineBoard, "list">;
  readonly messenger: Pick<Messenger, "ask">;
  readonly alarms?: Pick<Alarms, "raise" | "clear"> | undefined;
}

interface Remote {
  readonly machine: string;
  /** At least one. */
  readonly lanes: readonly number[];
}

type Look = Extract<LaneQuestion, { readonly lanes?: unknown }>;

/** The other machines that run lanes, each asked through one of its lanes. Each lane is asked of one machine. */
export function createRemoteMachines(options: RemoteMachinesOptions) {
  const { own, board, messenger, alarms } = options;
  const answers = new Map<string, { readonly atMs: number; readonly answer: Promise<LanesAnswer> }>();
  const rates = new Map<string, RatesView>();
  const silentMs = new Map<string, number>();
  const never = new AbortController().signal;
  let settling: NodeJS.Timeout | undefined;

  /** Machines with the lanes that they run now. Of this machine, its own word is newer than its report. */
  function owners(): readonly Remote[] {
    const here = (options.running?.() ?? []).map(({ lane, sinceMs }) => ({
      lane,
      sinceMs,
      state: "running",
    }));
    const others = board.list(Date.now()).filter(({ machine }) => machine !== own);
    const all = [...others, ...(own === undefined ? [] : [{ machine: own, lanes: here }])];
    return withoutLostLanes<{ machine: string; lanes: readonly ReportedLane[] }>(all).map(
      ({ machine, lanes }) => ({
        machine,
        lanes: lanes.filter(({ state }) => state === "running").map(({ lane }) => lane),
      }),
    );
  }

  function list(): readonly Remote[] {
    settle();
    return owners().filter(({ machine, lanes }) => machine !== own && lanes.length > 0);
  }

  /** Ends the alarms of machines that have no lanes to answer for any more, or were not asked for a while. */
  function settle(): void {
    for (const [machine, atMs] of silentMs)
      if (performance.now() - atMs > SILENT_MS || !hasLanes(machine)) answered(machine);
  }

  function hasLanes(machine: string): boolean {
    return owners().some((one) => one.machine === machine && one.lanes.length > 0);
  }

  function silent(machine: string): void {
    silentMs.set(machine, performance.now());
    settling ??= setInterval(settle, SETTLE_MS).unref();
    alarms?.raise({
      kind: "cluster_silent",
      subject: machine,
      message: `The machine ${machine} does not answer: what its lanes have is missing on this page.`,
      remedy: "If it stays silent, the group gives its lanes to others within the session timeout.",
      severity: "warning",
    });
  }

  function answered(machine: string): void {
    silentMs.delete(machine);
    alarms?.clear("cluster_silent", machine);
    if (silentMs.size > 0) return;
    clearInterval(settling);
    settling = undefined;
  }

  async function ask({ machine, lanes }: Remote, question: Look): Promise<LanesAnswer> {
    const answer = await messenger.ask(lanes[0]!, { ...question, lanes }, ANSWER_MS, never);
    if (answer === undefined) {
      // Its lanes may have moved while we waited.
      if (hasLanes(machine)) silent(machine);
      throw new SilentError(`The machine ${machine} does not answer.`);
    }
    answered(machine);
    if (!answer.ok) throw errorOf(answer);
    return answer.value as LanesAnswer;
  }

  /** The same question within a few seconds gets the same answer. */
  function look(remote: Remote, question: Look): Promise<LanesAnswer> {
    const key = JSON.stringify([remote, question]);
    const known = answers.get(key);
    if (known !== undefined && Date.now() - known.atMs < FRESH_MS) return known.answer;
    const answer = ask(remote, question);
    answer.catch(() => answers.delete(key));
    answers.delete(key);
    answers.set(key, { atMs: Date.now(), answer });
    if (answers.size > KEPT_ANSWERS) answers.delete(answers.keys().next().value!);
    return answer;
  }

  /** The view of a machine. `heard` is told of which lanes an answer is. */
  function viewOf(remote: Remote, heard: (lanes: readonly number[]) => void): View {
    const { machine } = remote;
    async function part(name: keyof View, values: readonly unknown[] = []) {
      const { lanes, found } = await look(remote, { kind: "look", part: name, values: [...values] });
      heard(lanes);
      return found as never;
    }
    return {
      status: () => part("status"),
      rates() {
        part("rates")
          .then((found: RatesView) => rates.set(machine, found))
          .catch(() => {});
        return rates.get(machine) ?? { bucketMs: 5000, fromMs: 0, received: [], live: [], sent: {} };
      },
      organizations: (query) => part("organizations", [query]),
      calendar: () => part("calendar"),
      windows: (query) => part("windows", [query]),
      gaps: (query) => part("gaps", [query]),
      sinks: async () => ({ sinks: await part("sinks") }),
      archives: async () => ({ archives: await part("archives") }),
      deadLetters: (query) => part("deadLetters", [query]),
      deadLetter: (id) => part("deadLetter", [id]),
      drift: (limit) => part("drift", [limit]),
      // Its page numbers are this process' own; the page shows the newest events of its own lanes.
      recent: () => Promise.reject(new Error("The newest events are those of this machine.")),
    };
  }

  function lanesViewOf(remote: Remote): RemoteLanesView {
    return {
      lanes: remote.lanes,
      view: viewOf(remote, () => {}),
      async ask(question) {
        let { lanes } = remote;
        const found = await question(
          viewOf(remote, (heard) => {
            lanes = lanes.filter((lane) => heard.includes(lane));
          }),
        );
        return { lanes, found };
      },
    };
  }

  return {
    /** The lanes that run here and that no other machine has taken since. */
    here: (): readonly number[] => owners().find(({ machine }) => machine === own)?.lanes ?? [],
    views: () => list().map(lanesViewOf),
    look: (call: RouteCall): readonly AskedLanes<unknown>[] =>
      list().map((remote) => ({
        lanes: remote.lanes,
        answer: look(remote, { kind: "look_route", call }).then(({ lanes, found }) => ({ lanes, found })),
      })),
    settle,
  };
}
