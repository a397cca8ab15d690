import { createServer } from "node:net";
import type { Config } from "../../config/schema.ts";
import { refuseUnsafe } from "../../server/access.ts";
import type { CheckFinding } from "./finding.ts";

/** Throws what `run` would throw about the server; online also tries whether the port is free. */
export async function* checkServer(
  config: Config,
  online: boolean,
  isRunning: boolean,
): AsyncGenerator<CheckFinding> {
  if (config.server === undefined) return;
  refuseUnsafe(config.server);
  if (!online || isRunning) return;
  const { host, port } = config.server;
  const fault = await listenFault(host, port);
  yield {
    subject: "server",
    ok: fault === undefined,
    message:
      fault === undefined
        ? `port ${port} of ${host} is free`
        : `the server cannot listen on ${host} port ${port} (${fault}). Choose another server.port, or stop the program that uses it`,
  };
}

function listenFault(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", (error) => resolve(error.message));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)));
  });
}
