import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { importSchema } from "../../src/imports/config.ts";
import { openWorld, type World } from "../support/world.ts";
import { blocks } from "./pages.ts";

/** Pages whose commands run here, in the order of the page, against one prepared world. */
const PAGES = ["docs/journey.md", "docs/imports.md", "docs/troubleshooting.md", "docs/operations.md"];
/**
 * Commands that need another situation than this world; these tests run them: test/commands/commands.test.ts and
 * test/end-to-end/sinks.test.ts, backup.test.ts and backup-sinks.test.ts, test/imports/commands.test.ts.
 */
const ELSEWHERE =
  /^tidemark (sinks (rename|forget|resume)|restore|imports (resolve|activate)|dead-letters (drop|replay --sink))\b/;
const PLACEHOLDERS = { organization: "5f0c8a1b2c3d4e5f60718293", workday: "6502d1b4a3c2e1f00918273a" };

describe("commands of the documentation", () => {
  let world: World;
  let refusing: Server;
  let config: string;

  beforeAll(async () => {
    world = await openWorld({
      ...{ events: 300, imports: { listUsers: true, failureShare: 0, usersPerSecond: 500 } },
      clock: { speed: 20 },
    });
    refusing = createServer((request, response) => {
      request.resume();
      request.on("end", () =>
        response
          .writeHead(422, { "content-type": "application/json" })
          .end('{"title":"mapper_parsing_exception"}'),
      );
    });
    await new Promise<void>((resolve) => refusing.listen(0, "127.0.0.1", resolve));
    const { port } = refusing.address() as AddressInfo;
    const { control, organizations } = world.simulator;
    const organization = organizations[0]!.id;
    const definition = {
      ...{ name: "nightly-hr", account: "acme", organization, schedule: "0 2 * * *" },
      application: control.world.importApplication(organization),
      ...{ quietAfter: "1s", finishAfter: "1s" },
    };
    importSchema.parse(definition);
    config = world.configure({
      sinks: [
        `{ name: disk, type: file, directory: ${world.at("events")} }`,
        `{ name: siem, type: file, directory: ${world.at("siem")} }`,
        `{ name: elastic, type: http, url: 'http://127.0.0.1:${port}/', only: { services: [alert] } }`,
      ],
      more: [`imports: [${JSON.stringify(definition)}]`],
    });
    await world.run(["run", "--once", "-c", config]);
  }, 120_000);
  afterAll(async () => {
    refusing?.close();
    await world?.close();
  });

  /** The example's ids become those of this world. */
  async function wordsFor(line: string): Promise<string[]> {
    const { control, organizations } = world.simulator;
    const organization = organizations[0]!.id;
    const { stdout: letters } = await world.run(["dead-letters", "list", "-c", config]);
    const [, group = "3f2a91c0"] = /^([0-9a-f]{8}) /m.exec(letters) ?? [];
    const [, letter = "12"] = /newest: (\d+)/.exec(letters) ?? [];
    const user = control.world.users(organization).find(({ suspended }) => suspended === 0)!;
    const jobs = JSON.parse((await world.run(["imports", "list", "--json", "-c", config])).stdout) as {
      id: number;
    }[];
    const text = line
      .replaceAll(PLACEHOLDERS.organization, organization)
      .replaceAll(PLACEHOLDERS.workday, control.world.workday(organization))
      .replaceAll("64f0c0ffee0000000000abcd", user.id)
      .replace("--group 3f2a91c0", `--group ${group}`)
      .replace("dead-letters show 12", `dead-letters show ${letter}`)
      .replaceAll("/backups/", `${world.folder}/`)
      .replace(/(imports (?:show|export)) 12/, `$1 ${jobs[0]?.id ?? 1}`)
      .replace("users.csv", world.at("users.csv"));
    return [...text.matchAll(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g)].map(([word]) =>
      word.replace(/"([^"]*)"|'([^']*)'/g, "$1$2"),
    );
  }

  const lines = blocks
    .filter(({ page, kind }) => PAGES.includes(page) && kind === "sh")
    .flatMap(({ page, line, text }) =>
      text
        .trimEnd()
        .split("\n")
        .map((command, at) => ({ place: `${page}:${line + 1 + at}`, command })),
    )
    .filter(({ command }) => command.startsWith("tidemark ") && !ELSEWHERE.test(command));

  it.each(lines.map(({ place, command }) => [place, command]))("%s: %s", async (_place, line) => {
    const [, ...words] = await wordsFor(line);
    const stop = new AbortController();
    const isEndless = words.includes("--watch");
    const timer = isEndless ? setTimeout(() => stop.abort(new Error("stopped")), 2_000) : undefined;
    const outcome = await world.run([...words, "-c", config], { signal: stop.signal });
    clearTimeout(timer);
    expect(outcome.code, `${outcome.stdout}\n${outcome.stderr}`).toBe(0);
  });
});
