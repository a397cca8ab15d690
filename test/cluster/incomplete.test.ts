import { PassThrough } from "node:stream";
import { Command } from "commander";
import { describe, expect, test } from "vitest";
import { type AskedLanes, SilentError } from "../../src/app/cluster/answers.ts";
import { clusterImportRoutes, lookInLanes } from "../../src/app/cluster/import-routes.ts";
import { createLook, type RunningLane } from "../../src/app/cluster/own-lanes.ts";
import { registerCoverage } from "../../src/commands/coverage.ts";
import { registerImports } from "../../src/commands/imports.ts";
import type { Io } from "../../src/commands/io.ts";
import type { ManagementContext } from "../../src/commands/management.ts";
import { registerStatus } from "../../src/commands/status.ts";
import type { RouteCall } from "../../src/core/lane-requests.ts";
import { RouteError } from "../../src/core/route.ts";
import type { View } from "../../src/core/view.ts";
import { importRouteShapes } from "../../src/imports/routes.ts";
import { createView } from "../../src/journal/view/view.ts";
import { fillSmall, makeState } from "../server/state.ts";
import { useCleanups } from "../support/cleanups.ts";

const never = new AbortController().signal;
const MISSING = "No machine answers for lanes 2-3: their organizations are missing in all lists and numbers";

/** A lane with one job, whose number is the lane's. */
function laneWithJob(lane: number): RunningLane {
  const routes = importRouteShapes().map((shape) => ({
    ...shape,
    async run({ params }: { readonly params: unknown }) {
      if (shape.path === "/api/imports") return { jobs: [{ id: lane, requestedAt: `2026-01-0${lane + 1}` }] };
      if (shape.path === "/api/imports/runs") return { runs: [] };
      if (shape.path === "/api/imports/definitions") return { imports: [] };
      if ((params as { readonly id: number }).id === lane) return { id: lane };
      throw new RouteError(404, "There is no such job.");
    },
  }));
  return { lane, sinceMs: 0, app: { imports: { routes } } as unknown as RunningLane["app"] };
}

/** A machine with lanes 0 and 1, which asks others for the rest. */
function machine(elsewhere: (call: RouteCall) => readonly AskedLanes<unknown>[]) {
  const running = [0, 1].map(laneWithJob);
  const routes = clusterImportRoutes({
    ...{ config: { imports: [] } as never, lanes: 4, running: () => running, lookElsewhere: elsewhere },
    messenger: { ask: () => Promise.reject(new Error("Nothing is changed here.")) },
  });
  return (path: string, id?: number) =>
    routes
      .find((one) => one.method === "GET" && one.path === path)!
      .run({
        ...{ params: id === undefined ? {} : { id }, query: {}, body: undefined },
        ...{ caller: "test", signal: never, stopped: never },
      });
}

const others = [2, 3].map(laneWithJob);
const answering = (call: RouteCall): readonly AskedLanes<unknown>[] => {
  const ask = async () => ({ lanes: [2, 3], found: await lookInLanes(others, call, never) });
  return [{ lanes: [2, 3], answer: ask() }];
};
const silent = (): readonly AskedLanes<unknown>[] => [
  { lanes: [2, 3], answer: Promise.reject(new SilentError("The machine b does not answer.")) },
];

describe("lists of a cluster that lack lanes", () => {
  const cleanups = useCleanups();

  test("lists of jobs, runs and imports say which lanes they lack", async () => {
    expect(await machine(answering)("/api/imports")).toEqual({
      jobs: [3, 2, 1, 0].map((id) => expect.objectContaining({ id })),
    });
    for (const elsewhere of [silent, () => []])
      for (const path of ["/api/imports", "/api/imports/runs", "/api/imports/definitions"])
        expect(await machine(elsewhere)(path), path).toHaveProperty("incomplete", MISSING);
  });

  test("a job is unknown once every lane has answered; one that is found needs no other lane", async () => {
    const path = "/api/imports/:id";
    await expect(machine(answering)(path, 9)).rejects.toMatchObject({ status: 404 });
    for (const elsewhere of [silent, () => []]) {
      expect(await machine(elsewhere)(path, 1)).toEqual({ id: 1 });
      await expect(machine(elsewhere)(path, 2)).rejects.toMatchObject({
        status: 503,
        message: expect.stringContaining(MISSING),
      });
    }
  });

  test("a machine whose lane cannot list its jobs gives no list, and one without some lanes does not say that a job is unknown", async () => {
    const broken = {
      ...others[1]!,
      app: { imports: { routes: [] } } as unknown as RunningLane["app"],
    };
    const call = { method: "GET", path: "/api/imports", params: {}, query: {}, caller: "test" } as const;
    await expect(lookInLanes([others[0]!, broken], call, never)).rejects.toThrow("This version has no");
    const look = createLook(
      () => ({}) as View,
      () => others,
    );
    const ask = (lanes: readonly number[]) =>
      look(
        {
          ...{ kind: "look_route", id: "0:x", lanes },
          call: { ...call, path: "/api/imports/:id", params: { id: 9 } },
        },
        never,
      );
    await expect(ask([2, 3])).rejects.toMatchObject({ status: 404 });
    await expect(ask([1, 2, 3])).rejects.toMatchObject({ status: 503 });
  });

  async function run(register: (program: Command, io: Io) => void, ...args: string[]) {
    const [stdout, stderr] = [new PassThrough(), new PassThrough()];
    let code = 0;
    const setExitCode = (given: number) => {
      code = given;
    };
    const program = new Command().exitOverride();
    register(program, { ...{ stdout, stderr, setExitCode }, env: {}, signal: never } as unknown as Io);
    await program.parseAsync(args, { from: "user" });
    const textOf = (stream: PassThrough) => (stream.read() as Buffer | null)?.toString() ?? "";
    return { code, stdout: textOf(stdout), stderr: textOf(stderr) };
  }

  const SAID = `This is not complete: ${MISSING}. \`tidemark cluster status\` shows the lanes.\n`;

  test("coverage and status say so on stderr, with exit code 1, and do not claim that there is nothing", async () => {
    const state = makeState();
    cleanups.push(() => state.close());
    await fillSmall(state);
    const whole = createView(state.db, null, state.options);
    const missing = { incomplete: MISSING };
    const viewOf = (isEmpty: boolean): View => ({
      ...whole,
      status: async () => ({ ...(await whole.status()), ...missing }),
      organizations: async (query) => ({
        ...(await whole.organizations(query)),
        ...(isEmpty ? { total: 0, matched: 0, rows: [] } : {}),
        ...missing,
      }),
    });
    const open = (isEmpty: boolean) => async () => ({ view: viewOf(isEmpty), close: async () => {} });
    for (const isEmpty of [false, true]) {
      const coverage = (program: Command, io: Io) => registerCoverage(program, io, open(isEmpty));
      for (const more of [[], ["--json"], ["--problems"], ["--organization", "nobody"]]) {
        const shown = await run(coverage, "coverage", ...more);
        expect(shown).toMatchObject({ code: 1, stderr: SAID });
        const isFound = !isEmpty && more[0] !== "--organization";
        expect(shown.stdout).toMatch(isFound ? /./ : /^$/);
      }
      const status = (program: Command, io: Io) => registerStatus(program, io, open(isEmpty));
      expect(await run(status, "status")).toMatchObject({ code: 1, stderr: SAID });
    }
  });

  test("so do imports list and runs", async () => {
    const call = async (_: string, path: string) =>
      path === "/api/imports" ? { jobs: [], incomplete: MISSING } : { runs: [], incomplete: MISSING };
    const context = {
      ...{ definitions: [], clock: { now: () => 0 } },
      cluster: async () => ({ call }),
      close: async () => {},
    } as unknown as ManagementContext;
    const imports = (program: Command, io: Io) => registerImports(program, io, async () => context);
    for (const words of [["list"], ["list", "--json"], ["runs"], ["runs", "--json"]])
      expect(await run(imports, "imports", ...words)).toMatchObject({ code: 1, stderr: SAID });
    await run(imports, "imports", "list", "--limit", "1000");
    for (const [word, limit, most] of [
      ["list", "5000", "1000"],
      ["list", "0", "1000"],
      ["runs", "10001", "10000"],
    ] as const)
      await expect(run(imports, "imports", word, "--limit", limit)).rejects.toThrow(
        `In a cluster --limit is from 1 to ${most}, because`,
      );
  });
});
