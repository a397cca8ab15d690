import type { MachineBoard } from "../../cluster/machines.ts";
import type { Alarms } from "../../core/alarms.ts";
import type { LaneQuestion, RouteCall } from "../../core/lane-requests.ts";
import type { RatesView } from "../../core/view/status.ts";
import type { View } from "../../core/view.ts";
import { errorOf } from "../requests.ts";
import type { Messenger } from "./messenger.ts";

/** Answers of other machines are used for this time. */
const FRESH_MS = 4000;
const ANSWER_MS = 5000;
const KEPT_ANSWERS = 500;

export interface RemoteMachinesOptions {
  /** This machine's name; undefined: a command, which runs no lanes. */
  readonly own: string | undefined;
  readonly board: Pick<MachineBoard, "list">;
  readonly messenger: Pick<Messenger, "ask">;
  readonly alarms?: Pick<Alarms, "raise" | "clear"> | undefined;
}

/** The other machines that run lanes, each asked through one of its lanes. */
export function createRemoteMachines({ own, board, messenger, alarms }: RemoteMachinesOptions) {
  const answers = new Map<string, { readonly atMs: number; readonly answer: Promise<unknown> }>();
  const rates = new Map<string, RatesView>();
  const never = new AbortController().signal;

  function list(): readonly { readonly machine: string; readonly lane: number }[] {
    return board.list(Date.now()).flatMap(({ machine, lanes }) => {
      const lane = lanes.find(({ state }) => state === "running")?.lane;
      return machine === own || lane === undefined ? [] : [{ machine, lane }];
    });
  }

  async function ask(machine: string, lane: number, question: LaneQuestion): Promise<unknown> {
    const answer = await messenger.ask(lane, question, ANSWER_MS, never);
    if (answer === undefined) {
      alarms?.raise({
        kind: "cluster_silent",
        subject: machine,
        message: `The machine ${machine} does not answer: what its lanes have is missing on this page.`,
        remedy: "If it stays silent, the group gives its lanes to others within the session timeout.",
        severity: "warning",
      });
      throw new Error(`The machine ${machine} does not answer.`);
    }
    alarms?.clear("cluster_silent", machine);
    if (!answer.ok) throw errorOf(answer);
    return answer.value;
  }

  /** The same question within a few seconds gets the same answer. */
  function look(machine: string, lane: number, question: LaneQuestion): Promise<unknown> {
    const key = JSON.stringify([machine, question]);
    const known = answers.get(key);
    if (known !== undefined && Date.now() - known.atMs < FRESH_MS) return known.answer;
    const answer = ask(machine, lane, question);
    answer.catch(() => answers.delete(key));
    answers.delete(key);
    answers.set(key, { atMs: Date.now(), answer });
    if (answers.size > KEPT_ANSWERS) answers.delete(answers.keys().next().value!);
    return answer;
  }

  function viewOf(machine: string, lane: number): View {
    const part = (name: keyof View, values: readonly unknown[] = []) =>
      look(machine, lane, { kind: "look", part: name, values: [...values] }) as Promise<never>;
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
      sinks: () => part("sinks"),
      archives: () => part("archives"),
      deadLetters: (query) => part("deadLetters", [query]),
      deadLetter: (id) => part("deadLetter", [id]),
      drift: (limit) => part("drift", [limit]),
      // Its page numbers are this process' own; the page shows the newest events of its own lanes.
      recent: () => Promise.reject(new Error("The newest events are those of this machine.")),
    };
  }

  return {
    views: () => list().map(({ machine, lane }) => ({ lane: undefined, view: viewOf(machine, lane) })),
    look: (call: RouteCall) =>
      list().map(({ machine, lane }) => look(machine, lane, { kind: "look_route", call })),
  };
}
