import { Command } from "commander";
import { expect, test } from "vitest";
import type { Io } from "../../src/commands/io.ts";
import type { ManagementContext } from "../../src/commands/management.ts";
import { registerUsers } from "../../src/commands/users.ts";

/** What the command says, and its exit code, for such an answer of the service. */
async function scheduled(ids: readonly string[], rows: readonly { systemUserId?: string }[]) {
  let [out, code] = ["", 0];
  const io = {
    stdout: { write: (text: string) => (out += text) },
    signal: new AbortController().signal,
    setExitCode: (given: number) => {
      code = given;
    },
  } as unknown as Io;
  const context = {
    accounts: ["acme"],
    management: () => ({ scheduleStates: async () => rows }),
    close: async () => {},
  } as unknown as ManagementContext;
  const program = new Command();
  registerUsers(program, io, async () => context);
  await program.parseAsync(["users", "activate", ...ids, "--at", "2026-12-01T08:00:00Z"], { from: "user" });
  return { out, code };
}

test("users that the answer to a scheduled activation does not name are named, with exit code 1", async () => {
  const { out, code } = await scheduled(["u1", "u2", "u3"], [{ systemUserId: "u2" }]);
  expect(code).toBe(1);
  expect(out).toContain("1 activations scheduled for 2026-12-01T08:00:00.000Z.");
  expect(out).toContain("does not name 2 of the users: u1, u3.");
  expect((await scheduled(["u1"], [])).code).toBe(1);
});

test("rows for all users are enough, whether or not they say whose they are", async () => {
  expect((await scheduled(["U1", "u2"], [{ systemUserId: "u1" }, {}])).code).toBe(0);
  expect((await scheduled(["u1", "u2"], [{}, {}])).out).toBe(
    "2 activations scheduled for 2026-12-01T08:00:00.000Z.\n",
  );
});
