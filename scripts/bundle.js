import { rmSync, writeFileSync } from "node:fs";
import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";

/*
 * Joins the modules of the program into a few files. Node needs 0.3 s of processor time to find and link hundreds of
 * small modules, a quarter of the start of `tidemark run`. Packages stay outside, so that an updated package takes
 * effect without a new build. The single modules stay in place for threads, tests and the benchmark.
 */
const SOURCE = fileURLToPath(new URL("../dist/src/", import.meta.url));
const CHUNKS = `${SOURCE}chunks`;

rmSync(CHUNKS, { recursive: true, force: true });
const bundle = await rolldown({
  input: { program: `${SOURCE}commands/index.js` },
  platform: "node",
  external: /^[^./]/,
  plugins: [
    {
      name: "own place",
      // Modules look for threads and assets beside their own file, which is not where their code is now.
      transform(code, id) {
        if (!code.includes("import.meta.url")) return null;
        const place = JSON.stringify(relative(CHUNKS, id));
        return code.replaceAll("import.meta.url", `new URL(${place}, import.meta.url).href`);
      },
    },
  ],
});
await bundle.write({ dir: CHUNKS, format: "esm", chunkFileNames: "[name]-[hash].js" });
await bundle.close();
writeFileSync(`${SOURCE}commands/index.js`, 'export * from "../chunks/program.js";\n');
