// Compiles the AssemblyScript modules into dist/, in one process: most of the time is the compiler's own start.
import asc from "assemblyscript/asc";

for (const folder of ["wasm/", "wasm/text.", "wasm/recipe/", "wasm/deflate/"]) {
  const { error, stderr } = await asc.main(["--config", `${folder}asconfig.json`]);
  if (error === null) continue;
  process.stderr.write(stderr.toString());
  throw error;
}
