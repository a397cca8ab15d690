import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { fetchOnce, programOnPath } from "./components.ts";

/** Readers of Parquet that share no code with the writer. Each gives the rows as JSON, nulls included. */
export interface ParquetReader {
  readonly name: string;
  rows(file: string): Promise<readonly unknown[]>;
}

type Row = Record<string, unknown>;

/** DuckDB, an optional dependency of the program. */
export async function findDuckdb(): Promise<ParquetReader | undefined> {
  const library = await import("@duckdb/node-api").catch(() => undefined);
  if (library === undefined) return undefined;
  return {
    name: "duckdb",
    async rows(file) {
      const instance = await library.DuckDBInstance.create(":memory:");
      const connection = await instance.connect();
      try {
        const sql = `SELECT to_json(t)::VARCHAR AS row FROM read_parquet('${file}') t`;
        const reader = await connection.runAndReadAll(sql);
        return reader.getRowObjects().map(({ row }) => JSON.parse(String(row)) as Row);
      } finally {
        connection.closeSync();
        instance.closeSync();
      }
    },
  };
}

const PYARROW = "26.0.1";

/** Apache Arrow's own reader, from PyPI. */
export async function findPyarrow(): Promise<ParquetReader | undefined> {
  const python = programOnPath("python3");
  if (python === undefined) return undefined;
  const folder = await fetchOnce("pyarrow", `pyarrow-${PYARROW}`, async (target) => {
    execFileSync(python, ["-m", "pip", "-q", "install", "--target", target, `pyarrow==${PYARROW}`], {
      stdio: "inherit",
    });
  });
  if (folder === undefined) return undefined;
  const script =
    "import json, sys, pyarrow.parquet as pq\nfor row in pq.read_table(sys.argv[1]).to_pylist(): print(json.dumps(row))";
  return {
    name: "pyarrow",
    async rows(file) {
      const env = { ...process.env, PYTHONPATH: folder };
      return linesOf(execFileSync(python, ["-c", script, file], { env, maxBuffer: 1e9, encoding: "utf8" }));
    },
  };
}

const PARQUET_CLI = "1.15.2";

/** Apache Parquet's own command line, the successor of its parquet-tools; from Maven. */
export async function findParquetCli(): Promise<ParquetReader | undefined> {
  if (!programOnPath("java")) return undefined;
  const folder = await fetchOnce("parquet_cli", `parquet-cli-${PARQUET_CLI}`, async (target) => {
    const pom = join(import.meta.dirname, "maven", "parquet", "pom.xml");
    const goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";
    const options = ["-DincludeScope=runtime", `-DoutputDirectory=${target}`];
    execFileSync("mvn", ["-q", "-B", "-f", pom, goal, ...options], { stdio: "inherit" });
  });
  if (folder === undefined) return undefined;
  return {
    name: "parquet-cli",
    async rows(file) {
      const args = ["-Xmx512m", "-cp", `${folder}/*`, "org.apache.parquet.cli.Main", "cat", file];
      const stdio = ["ignore", "pipe", "ignore"] as const;
      return linesOf(execFileSync("java", args, { maxBuffer: 1e9, encoding: "utf8", stdio: [...stdio] }));
    },
  };
}

function linesOf(text: string): readonly unknown[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Row);
}
