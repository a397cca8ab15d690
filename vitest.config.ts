import { readdirSync, readFileSync } from "node:fs";
import { defineConfig } from "vitest/config";

const FOLDERS = ["test", "simulator/test"];
const TESTS = FOLDERS.map((folder) => `${folder}/**/*.test.ts`);

/** Everything that starts a program or a real component. The other tests are the unit tests. */
const STARTS_SOMETHING =
  /node:child_process|\/scene\.ts"|end-to-end\/|-suite\.ts"|campaign\.ts"|support\/(chromium|components|kafka|opensearch|otelcol|process|program|rsyslog|versitygw)/;
/** The first line of a test that needs nothing else, but tries thousands of cases. */
const CAMPAIGN = "// A campaign:";

const tests = FOLDERS.flatMap((folder) =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".test.ts"))
    .map((name) => `${folder}/${name}`),
).map((file) => ({ file, text: readFileSync(file, "utf8") }));
const withComponents = tests.filter(({ text }) => STARTS_SOMETHING.test(text)).map(({ file }) => file);
const campaigns = tests
  .filter(({ file, text }) => text.startsWith(CAMPAIGN) && !withComponents.includes(file))
  .map(({ file }) => file);

const shared = {
  globalSetup: "test/support/build.ts",
  pool: "forks",
  // One process runs many files: a new one for each takes a second to load the modules. No module holds state.
  isolate: false,
  // Generous limits: tests wait for conditions, and a busy machine only makes them slower.
  testTimeout: 600_000,
  hookTimeout: 600_000,
  expect: { poll: { timeout: 400_000 } },
} as const;

export default defineConfig({
  test: {
    // Most tests wait for programs and components, so there are more workers than small machines have cores.
    maxWorkers: 3,
    projects: [
      {
        test: {
          ...shared,
          name: "unit",
          include: TESTS,
          exclude: [...withComponents, ...campaigns],
        },
      },
      { test: { ...shared, name: "campaigns", include: campaigns } },
      { test: { ...shared, name: "components", include: withComponents } },
    ],
  },
});
