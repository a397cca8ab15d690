#!/usr/bin/env node
import { setHeapFlags } from "./core/heap-flags.ts";

// Loading the program makes V8 want a larger young generation already, so this comes first.
setHeapFlags();
// Libraries that open connections of their own read this variable: no one can switch off TLS verification by it.
if (process.env.NODE_TLS_REJECT_UNAUTHORIZED === "0") {
  delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
  process.stderr.write(
    "NODE_TLS_REJECT_UNAUTHORIZED=0 is ignored: certificates are always verified. Name the authority to trust under tls.ca.\n",
  );
}
const { main } = await import("./commands/index.ts");

/** The only file that touches `process`: argv, signals, streams, exit code. */
const stop = new AbortController();
let code = 0;
for (const name of ["SIGINT", "SIGTERM"] as const) {
  process.on(name, () => {
    // A second signal ends the process at once. Nothing is lost: the state is as after kill -9.
    if (stop.signal.aborted) process.exit(130);
    stop.abort(new Error(`stopped by ${name}`));
  });
}
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
});

await main(process.argv.slice(2), {
  stdout: process.stdout,
  stderr: process.stderr,
  stdin: process.stdin,
  env: process.env,
  signal: stop.signal,
  interactive: process.stdout.isTTY === true,
  program: [process.execPath, ...(process.argv[1] === undefined ? [] : [process.argv[1]])],
  memoryBytes: () => process.memoryUsage.rss(),
  kill: () => process.kill(process.pid, "SIGKILL"),
  setExitCode: (next) => {
    code = next;
  },
});
// `exit` drops what a pipe has not taken yet.
for (const stream of [process.stdout, process.stderr])
  await new Promise<void>((resolve) => stream.write("", () => resolve()));
process.exit(code);
