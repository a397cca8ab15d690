import { blocks } from "./pages.ts";

export interface Line {
  readonly page: string;
  readonly place: string;
  readonly kind: string;
  readonly command: string;
}

/** Every command line of the documentation, in its order. */
export const lines: readonly Line[] = blocks
  .filter(({ kind }) => kind.split(" ")[0] === "sh")
  .flatMap(({ page, line, kind, text }) =>
    text
      .trimEnd()
      .split("\n")
      .map((command, at) => ({ page, place: `${page}:${line + 1 + at}`, kind, command })),
  );

/** Commands that no test runs, with the reason. All others are run. */
export const NOT_RUN: readonly (readonly [command: RegExp, reason: string])[] = [
  [/^npm (ci|test|run (build|demo))\b/, "the tests run in a tree that these have installed and built"],
  [/^npm run bench$/, "a benchmark: it takes many minutes, and its figures need a quiet machine"],
  [/^npm audit\b/, "asks a registry, whose answer changes from day to day"],
  [/^alias /, "names the program, which the tests start by its path"],
  [/^docker /, "needs a Docker daemon; test/deploy checks the files"],
  [/^(kubectl|helm) /, "needs a Kubernetes cluster; test/deploy renders the chart and checks it"],
  [/^sudo /, "changes the machine; test/deploy checks the unit and its config"],
  [/^pip /, "changes the machine; test/archive runs the verifier with these packages"],
];

/** The test that runs the commands of a page, all but those of `NOT_RUN`. A page may have blocks of several kinds. */
export const RUN_BY: Readonly<Record<string, string>> = {
  "README.md sh walk build": "test/docs/walk.test.ts",
  "README.md sh walk broken": "test/docs/walk.test.ts",
  "README.md sh walk repaired": "test/docs/walk.test.ts",
  "README.md sh walk replayed": "test/docs/walk.test.ts",
  "docs/first-export.md sh simulator": "test/docs/commands.test.ts",
  "docs/first-export.md sh run": "test/docs/commands.test.ts",
  "docs/search.md sh question": "test/docs/search.test.ts",
  "docs/archive.md sh": "test/docs/archive.test.ts",
  "docs/auditor.md sh": "test/docs/archive.test.ts",
  "docs/azure-blob.md sh": "test/docs/guides.test.ts",
  "docs/cluster.md sh": "test/cluster/guide.test.ts",
  "docs/datadog.md sh": "test/docs/guides.test.ts",
  "docs/elasticsearch.md sh": "test/sinks/bulk.test.ts",
  "docs/first-export.md sh": "test/docs/executed.test.ts",
  "docs/gcs.md sh": "test/docs/guides.test.ts",
  "docs/google-secops.md sh": "test/docs/guides.test.ts",
  "docs/imports.md sh": "test/docs/executed.test.ts",
  "docs/install.md sh": "test/docs/executed.test.ts",
  "docs/journey.md sh": "test/docs/executed.test.ts",
  "docs/kafka.md sh": "test/cluster/guide.test.ts",
  "docs/msp.md sh": "test/docs/executed.test.ts",
  "docs/operations.md sh": "test/docs/executed.test.ts",
  "docs/otlp.md sh": "test/docs/guides.test.ts",
  "docs/s3.md sh": "test/docs/guides.test.ts",
  "docs/search.md sh": "test/docs/executed.test.ts",
  "docs/security-lake.md sh": "test/docs/guides.test.ts",
  "docs/security.md sh": "test/docs/executed.test.ts",
  "docs/sentinel.md sh": "test/docs/guides.test.ts",
  "docs/shards.md sh": "test/docs/executed.test.ts",
  "docs/splunk.md sh": "test/docs/guides.test.ts",
  "docs/sumo.md sh": "test/docs/guides.test.ts",
  "docs/syslog.md sh": "test/docs/guides.test.ts",
  "docs/troubleshooting.md sh": "test/docs/executed.test.ts",
  "docs/upgrading.md sh": "test/docs/executed.test.ts",
};

export const isRun = ({ command }: Line) =>
  // Of `a && b`, the first decides.
  !NOT_RUN.some(([pattern]) => pattern.test(command));

/** The lines of a page's plain blocks that have to be run, exports included. */
export function linesToRun(page: string): readonly Line[] {
  return lines.filter((line) => line.page === page && line.kind === "sh" && isRun(line));
}

/** Words as a shell sees them; enough for the documentation's own. */
export function wordsOf(command: string): string[] {
  return [...command.matchAll(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g)].map(([word]) =>
    word.replace(/"([^"]*)"|'([^']*)'/g, "$1$2"),
  );
}

/** The variables of an `export` line. */
export function variablesOf(command: string): Record<string, string> {
  return Object.fromEntries(
    wordsOf(command)
      .slice(1)
      .map((word) => [word.slice(0, word.indexOf("=")), word.slice(word.indexOf("=") + 1)]),
  );
}
