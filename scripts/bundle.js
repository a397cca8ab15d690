import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";

/*
 * Joins the modules of the program into a few files. Node needs 0.3 s of processor time to find and link hundreds of
 * small modules, a quarter of the start of `tidemark run`. Packages stay outside, so that an updated package takes
 * effect without a new build. The single modules stay in place for threads, tests and the benchmark.
 */
const SOURCE = fileURLToPath(new URL("../dist/src/", import.meta.url));
const CHUNKS = join(SOURCE, "chunks");
const MAIN = join(SOURCE, "main.js");

const bundle = await rolldown({
  input: { program: join(SOURCE, "commands/index.js") },
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
mkdirSync(CHUNKS, { recursive: true });
const { output } = await bundle.write({ dir: CHUNKS, format: "esm", chunkFileNames: "[name]-[hash].js" });
await bundle.close();
// V8 holds a source text with two bytes a character if it has one beyond Latin-1.
for (const { fileName, type, code } of output)
  if (type === "chunk") writeFileSync(join(CHUNKS, fileName), code.replace(/[^\0-\xff]/g, escaped));
const names = new Set(output.map(({ fileName }) => fileName));
for (const name of readdirSync(CHUNKS)) if (!names.has(name)) rmSync(join(CHUNKS, name), { force: true });
writeFileSync(MAIN, readFileSync(MAIN, "utf8").replace("./commands/index.js", "./chunks/program.js"));

function escaped(character) {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
