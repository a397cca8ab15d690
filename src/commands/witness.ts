import { once } from "node:events";
import type { AddressInfo } from "node:net";
import type { Command } from "commander";
import { COSIGNATURE } from "../archive/log/note.ts";
import { createWitness } from "../archive/witness/server.ts";
import { systemClock } from "../core/clock.ts";
import { UsageError } from "../core/errors.ts";
import { readSigner } from "./archive-keys.ts";
import { keyOption } from "./archive-store.ts";
import type { Io } from "./io.ts";
import { listOption } from "./options.ts";

interface Flags {
  readonly key: string;
  readonly log: string[];
  readonly state: string;
  readonly listen: string;
}

export function registerWitness(program: Command, io: Io): void {
  program
    .command("witness")
    .summary("cosign the checkpoints of archives on other machines")
    .description(
      "A small server (C2SP tlog-witness) that remembers the newest checkpoint of each log and cosigns only what continues it. Run it on a machine that the archive's operator does not control.",
    )
    .requiredOption(
      "--key <file>",
      "the witness' own key, made by `tidemark archive keys new FILE --origin NAME --witness`",
    )
    .requiredOption("--log <key>", "the public key of a log; repeat it for more", listOption)
    .option("--state <directory>", "where the newest checkpoints are kept", "./witness")
    .option("--listen <address>", "host and port", "127.0.0.1:9466")
    .addHelpText(
      "after",
      "\nExample:\n  $ tidemark witness --key witness.key --log example.com/audit-archive+0123abcd+AZ…",
    )
    .action((flags: Flags) => serve(flags, io));
}

async function serve(flags: Flags, io: Io): Promise<void> {
  const signer = readSigner(flags.key);
  if (signer.verifier.type !== COSIGNATURE)
    throw new UsageError(`${flags.key} is not a witness' key: make one with --witness.`);
  const match = /^(.+):(\d{1,5})$/.exec(flags.listen);
  if (match === null) throw new UsageError("--listen is a host and a port, such as 0.0.0.0:9466.");
  const server = createWitness({
    signer,
    logs: flags.log.map(keyOption),
    folder: flags.state,
    clock: systemClock,
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(Number(match[2]), match[1], resolve);
  });
  const { port } = server.address() as AddressInfo;
  io.stdout.write(`Witness ${signer.verifier.text} listens on http://${match[1]}:${port}\n`);
  // A signal may have arrived while the port was opened.
  if (!io.signal.aborted) await once(io.signal, "abort");
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}
