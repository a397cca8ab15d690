import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Certificates } from "./certificates.ts";
import { programOnPath } from "./components.ts";
import { freePort } from "./ports.ts";
import { inTemporaryFolder, startProcess } from "./process.ts";

/** The rsyslog daemon on this machine, with its GnuTLS driver; undefined when it is not installed. */
export function findRsyslog(): string | undefined {
  const program =
    programOnPath("rsyslogd") ?? (existsSync("/usr/sbin/rsyslogd") ? "/usr/sbin/rsyslogd" : undefined);
  return program && programOnPath("openssl") ? program : undefined;
}

export interface Rsyslog {
  readonly port: number;
  /** Each received message as JSON with its parts, as rsyslog parsed it, in the order it was written. */
  messages(count: number): Promise<readonly SyslogMessage[]>;
  kill(): Promise<void>;
  restart(): Promise<void>;
  close(): Promise<void>;
}

export interface SyslogMessage {
  readonly facility: string;
  readonly severity: string;
  readonly timestamp: string;
  readonly hostname: string;
  readonly app: string;
  readonly msgid: string;
  readonly data: string;
  readonly msg: string;
}

const QUIET_MS = 150;
const ARRIVAL_MS_MAX = 120_000;

/** A daemon of its own on a free port; with certificates over TLS, where clients must show one of theirs. */
export function startRsyslog(program: string, certificates?: Certificates): Promise<Rsyslog> {
  return inTemporaryFolder("tidemark-rsyslog-", (root) => startIn(root, program, certificates));
}

async function startIn(root: string, program: string, certificates?: Certificates): Promise<Rsyslog> {
  const port = await freePort();
  const output = join(root, "messages");
  const configuration = join(root, "rsyslog.conf");
  writeFileSync(configuration, configurationOf(port, output, certificates));
  const args = ["-n", "-f", configuration, "-i", join(root, "pid")];
  const start = () => startProcess(program, args, { isReady: () => isListening(port) });
  let running = await start();

  return {
    port,
    async messages(count) {
      const deadline = Date.now() + ARRIVAL_MS_MAX;
      let lines = linesOf(output);
      // Arrived messages are in the file a moment later; unexpected ones would come in that moment too.
      for (let quietSince = Date.now(); ; ) {
        await sleep(20);
        const now = linesOf(output);
        if (now.length !== lines.length) quietSince = Date.now();
        lines = now;
        const isQuiet = Date.now() - quietSince >= QUIET_MS;
        if ((lines.length >= count && isQuiet) || Date.now() > deadline) break;
      }
      return lines.map((line) => JSON.parse(line) as SyslogMessage);
    },
    kill: () => running.kill("SIGKILL"),
    async restart() {
      running = await start();
    },
    async close() {
      await running.kill();
      rmSync(root, { recursive: true, force: true });
    },
  };
}

function linesOf(path: string): readonly string[] {
  return existsSync(path) ? readFileSync(path, "utf8").split("\n").slice(0, -1) : [];
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

function configurationOf(port: number, output: string, certificates: Certificates | undefined): string {
  const tls = certificates
    ? `global(DefaultNetstreamDriver="gtls" DefaultNetstreamDriverCAFile="${certificates.ca}"
  DefaultNetstreamDriverCertFile="${certificates.server.cert}"
  DefaultNetstreamDriverKeyFile="${certificates.server.key}")`
    : "";
  const driver = certificates
    ? 'StreamDriver.Name="gtls" StreamDriver.Mode="1" StreamDriver.AuthMode="x509/certvalid"'
    : "";
  const properties = [
    ["facility", "syslogfacility-text"],
    ["severity", "syslogseverity-text"],
    ["timestamp", "timereported"],
    ["hostname", "hostname"],
    ["app", "app-name"],
    ["msgid", "msgid"],
    ["data", "structured-data"],
    ["msg", "msg"],
  ].map(
    ([outname, name]) =>
      `property(outname="${outname}" name="${name}" format="jsonf"${name === "timereported" ? ' dateFormat="rfc3339"' : ""})`,
  );
  return `
global(maxMessageSize="64k" parser.escapeControlCharactersOnReceive="off" workDirectory="/tmp")
${tls}
module(load="imtcp" ${driver})
template(name="parts" type="list") {
  constant(value="{")
  ${properties.join('\n  constant(value=", ")\n  ')}
  constant(value="}\\n")
}
ruleset(name="all") { action(type="omfile" file="${output}" template="parts") }
input(type="imtcp" address="127.0.0.1" port="${port}" ruleset="all")
`;
}
