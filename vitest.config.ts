import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts", "simulator/test/**/*.test.ts"],
    globalSetup: ["test/support/build.ts"],
    pool: "forks",
    testTimeout: 30_000,
    hookTimeout: 120_000,
    maxWorkers: 2,
  },
});
