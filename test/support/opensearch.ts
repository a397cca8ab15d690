import { execFileSync } from "node:child_process";
import { existsSync, linkSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fetchOnce, programOnPath } from "./components.ts";
import { SHORT_LIVED, trainedFlags, trainOnce } from "./java.ts";
import { freePort } from "./ports.ts";
import { inTemporaryFolder, type Running, startProcess } from "./process.ts";

const VERSION = "2.19.1";
const LAUNCHER_JAR = "launcher.jar";

/** The folder with OpenSearch's jars and our launcher; undefined when it was not fetched. */
export async function findOpenSearch(): Promise<string | undefined> {
  if (!programOnPath("java") || !programOnPath("mvn")) return undefined;
  const found = await fetchOnce("opensearch", `opensearch-${VERSION}`, async (folder) => {
    writeFileSync(join(folder, "pom.xml"), POM);
    const maven = [
      "-q",
      "-B",
      "dependency:copy-dependencies",
      "-DoutputDirectory=lib",
      "-DincludeScope=runtime",
    ];
    execFileSync("mvn", maven, { cwd: folder, stdio: "inherit" });
    writeFileSync(join(folder, "SearchNode.java"), LAUNCHER);
    execFileSync("javac", ["-cp", "lib/*", "SearchNode.java"], { cwd: folder, stdio: "inherit" });
  });
  if (found !== undefined && !existsSync(join(found, LAUNCHER_JAR))) packLauncher(found);
  return found;
}

/** Java keeps the loaded classes of jars only, not of folders. The first of several test files makes the jar. */
function packLauncher(folder: string): void {
  const temporary = join(folder, `launcher-${process.pid}.jar`);
  execFileSync("jar", ["cf", temporary, "SearchNode.class"], { cwd: folder });
  try {
    linkSync(temporary, join(folder, LAUNCHER_JAR));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    rmSync(temporary, { force: true });
  }
}

export interface OpenSearch {
  readonly url: string;
  readonly process: Running;
  /** Ends it like a power cut would. */
  kill(): Promise<void>;
  /** Starts it again with the same data, at the same address. */
  restart(): Promise<void>;
  request(method: string, path: string, body?: unknown): Promise<{ status: number; body: unknown }>;
  close(): Promise<void>;
}

/** A single node of its own; `settings` are OpenSearch's, `key=value`. */
export function startOpenSearch(folder: string, settings: readonly string[] = []): Promise<OpenSearch> {
  return inTemporaryFolder("tidemark-opensearch-", (data) => startIn(data, folder, settings));
}

async function startIn(data: string, folder: string, settings: readonly string[]): Promise<OpenSearch> {
  const trained = await trainOnce(`opensearch-${VERSION}`, (flags) =>
    inTemporaryFolder("tidemark-opensearch-", async (work) => {
      const { running } = await launch(work, folder, flags, []);
      await running.kill("SIGTERM");
      rmSync(work, { recursive: true, force: true });
    }),
  );
  const ports = [await freePort(), await freePort()] as const;
  const start = () => launch(data, folder, trainedFlags(trained), settings, ports);
  let { running, url } = await start();

  return {
    url,
    get process() {
      return running;
    },
    kill: () => running.kill("SIGKILL"),
    async restart() {
      ({ running, url } = await start());
    },
    async request(method, path, body) {
      const answer = await fetch(url + path, {
        method,
        ...(body !== undefined && {
          headers: { "content-type": "application/json" },
          body: JSON.stringify(body),
        }),
      });
      return { status: answer.status, body: await answer.json() };
    },
    async close() {
      await running.kill();
      rmSync(data, { recursive: true, force: true });
    },
  };
}

interface Launched {
  readonly running: Running;
  readonly url: string;
}

async function launch(
  data: string,
  folder: string,
  flags: readonly string[],
  settings: readonly string[],
  ports?: readonly [number, number],
): Promise<Launched> {
  const [port, transport] = ports ?? [await freePort(), await freePort()];
  const url = `http://127.0.0.1:${port}`;
  const args = [
    ...[...SHORT_LIVED, "-Xms256m", ...flags],
    ...["-cp", `${join(folder, LAUNCHER_JAR)}:${folder}/lib/*`, "SearchNode"],
    ...[`path.home=${data}`, `http.port=${port}`, `transport.port=${transport}`, ...settings],
  ];
  const isReady = async () => {
    const answer = await fetch(`${url}/_cluster/health?wait_for_status=yellow&timeout=1s`);
    return answer.status === 200;
  };
  return { running: await startProcess("java", args, { isReady, readyMsMax: 400_000 }), url };
}

const POM = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tidemark.test</groupId>
  <artifactId>opensearch</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.opensearch</groupId><artifactId>opensearch</artifactId><version>${VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.opensearch.plugin</groupId><artifactId>transport-netty4-client</artifactId><version>${VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId><artifactId>log4j-core</artifactId><version>2.21.0</version>
    </dependency>
  </dependencies>
</project>
`;

/** The server has no launcher outside its distribution: a node with the HTTP transport is all that is needed. */
const LAUNCHER = `
import java.util.List;
import java.util.Map;
import org.opensearch.common.settings.Settings;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;

public class SearchNode extends Node {
  SearchNode(Settings settings) {
    super(
        InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "tidemark-test"),
        List.of(Netty4Plugin.class),
        false);
  }

  public static void main(String[] arguments) throws Exception {
    Settings.Builder settings = Settings.builder();
    settings.put("cluster.name", "tidemark-test").put("network.host", "127.0.0.1");
    settings.put("discovery.type", "single-node").put("transport.type", "netty4").put("http.type", "netty4");
    settings.put("cluster.routing.allocation.disk.threshold_enabled", false);
    for (String argument : arguments) {
      int at = argument.indexOf('=');
      settings.put(argument.substring(0, at), argument.substring(at + 1));
    }
    new SearchNode(settings.build()).start();
    Thread.currentThread().join();
  }
}
`;
