import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";

test("aborts its derived signals although nothing else refers to it and garbage is collected", () => {
  const module = join(import.meta.dirname, "../../dist/src/core/timeout.js");
  const script = `
    import { timeoutSignal } from ${JSON.stringify(module)};
    const combined = AbortSignal.any([new AbortController().signal, timeoutSignal(300)]);
    const collect = setInterval(() => globalThis.gc(), 20);
    combined.addEventListener("abort", () => { console.log("aborted"); process.exit(0); });
    setTimeout(() => { clearInterval(collect); process.exit(1); }, 5000);
  `;
  const child = spawnSync(process.execPath, ["--expose-gc", "--input-type=module", "-e", script]);
  expect(child.stdout.toString()).toBe("aborted\n");
});
