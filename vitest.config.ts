import { readdirSync, readFileSync } from "node:fs";
import { defineConfig } from "vitest/config";

const FOLDERS = ["test", "simulator/test"];
const TESTS = FOLDERS.map((folder) => `${folder}/**/*.test.ts`);

/** Everything that starts a program or a real component. The other tests are the unit tests. */
const STARTS_SOMETHING =
  /node:child_process|\/scene\.ts"|end-to-end\/|-suite\.ts"|campaign\.ts"|support\/(chromium|components|kafka|opensearch|otelcol|process|program|rsyslog|versitygw)/;
const withComponents = FOLDERS.flatMap((folder) =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".test.ts"))
    .map((name) => `${folder}/${name}`),
).filter((file) => STARTS_SOMETHING.test(readFileSync(file, "utf8")));

const shared = {
  globalSetup: "test/support/build.ts",
  pool: "forks",
  // Generous limits: tests wait for conditions, and a busy machine only makes them slower.
  testTimeout: 180_000,
  hookTimeout: 300_000,
} as const;

export default defineConfig({
  test: {
    maxWorkers: 2,
    projects: [
      { test: { ...shared, name: "unit", include: TESTS, exclude: withComponents } },
      { test: { ...shared, name: "components", include: withComponents } },
    ],
  },
});
