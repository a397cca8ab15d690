import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { describe, expect, test } from "vitest";
import { formats } from "../src/formats/index.ts";
import { migrations } from "../src/journal/migrations.ts";
import { services } from "../src/services/index.ts";
import { sinks } from "../src/sinks/index.ts";

/** From the outside in; a layer imports only layers to its right, and parts do not import each other. */
const LAYERS = ["main", "commands", "app", "config", "part", "core"] as const;
type Layer = (typeof LAYERS)[number];
const PARTS = [
  "directory",
  "polling",
  "journal",
  "delivery",
  "services",
  "formats",
  "sinks",
  "imports",
  "query",
  "archive",
  "search",
  "cluster",
  "server",
  "telemetry",
];
/** The simulated service imports nothing of the clients, so a client's mistake is not mirrored. Commands start it. */
const SIMULATOR = "simulator";
/** The query language: the simulator and search answer with it. It imports nothing of ours. */
const QUERY = "query";
const SEARCH = "search";
/** Shared: choosing a binding of SQLite says nothing about the service. */
const BINDING = "src/core/sqlite.ts";
/** No file imports the page. */
const OUTSIDE = ["src/server/page", "simulator/test"];

/** Tables may be long: they are read line by line. */
const TABLES: readonly string[] = ["src/core/metrics.ts"];
/** The only folder that knows the library for Kafka; everything else uses src/core/kafka.ts. */
const KAFKA_CLIENT = "src/sinks/kafka/client/";
/** ClickHouse and DuckDB are asked in their own SQL. */
const SQL_PLACES =
  /^src\/(journal|imports\/store)\/|^simulator\/|^src\/sinks\/clickhouse|^src\/search\/|^src\/commands\/sql\.ts/;

interface Import {
  readonly from: string;
  readonly to: string;
}

const files = ["src", "simulator"]
  .flatMap((root) =>
    readdirSync(root, { recursive: true, encoding: "utf8" }).map((name) => `${root}/${name}`),
  )
  .filter((name) => name.endsWith(".ts") && !OUTSIDE.some((folder) => name.startsWith(folder)));
const imports = files.flatMap(importsOf);

describe("the architecture", () => {
  test("every file belongs to a layer", () => {
    expect(files.length).toBeGreaterThan(100);
    for (const file of files) placeOf(file);
  });

  test("imports run one way: main, commands, app, config, parts, core", () => {
    const wrong = imports.filter(({ from, to }) => {
      const [a, b] = [placeOf(from), placeOf(to)];
      if (a.part === SIMULATOR || b.part === SIMULATOR) return false;
      if (a.part === SEARCH && b.part === QUERY) return false;
      return a.part !== b.part ? LAYERS.indexOf(b.layer) <= LAYERS.indexOf(a.layer) : false;
    });
    expect(wrong.map(text)).toEqual([]);
  });

  test("parts do not import each other", () => {
    const wrong = imports.filter(({ from, to }) => {
      const [a, b] = [placeOf(from), placeOf(to)];
      if ((a.part === SIMULATOR || a.part === SEARCH) && b.part === QUERY) return false;
      return a.layer === "part" && b.layer === "part" && a.part !== b.part;
    });
    expect(wrong.map(text)).toEqual([]);
  });

  test("the simulator imports the query language and nothing else of ours, and only commands start it", () => {
    const wrong = imports.filter(({ from, to }) => {
      const [a, b] = [placeOf(from), placeOf(to)];
      if (a.part === SIMULATOR && b.part !== SIMULATOR) return b.part !== QUERY && to !== BINDING;
      return b.part === SIMULATOR && a.part !== SIMULATOR && a.layer !== "commands";
    });
    expect(wrong.map(text)).toEqual([]);
  });

  test("the query language imports nothing of ours", () => {
    const wrong = imports.filter(
      ({ from, to }) => placeOf(from).part === QUERY && placeOf(to).part !== QUERY,
    );
    expect(wrong.map(text)).toEqual([]);
  });

  test("no file imports itself through others", () => {
    // Types count as well: two files that need each other's types belong together or to a third.
    const next = new Map<string, string[]>();
    for (const { from, to } of imports) next.set(from, [...(next.get(from) ?? []), to]);
    const done = new Set<string>();
    const cycles: string[] = [];
    const visit = (file: string, path: readonly string[]): void => {
      if (path.includes(file)) {
        cycles.push([...path.slice(path.indexOf(file)), file].join(" → "));
        return;
      }
      if (done.has(file)) return;
      for (const to of next.get(file) ?? []) visit(to, [...path, file]);
      done.add(file);
    };
    for (const file of files) visit(file, []);
    expect(cycles).toEqual([]);
  });

  test("no file is longer than 300 lines, except tables", () => {
    const long = files.filter((file) => readFileSync(file, "utf8").split("\n").length > 301);
    expect(long.filter((file) => !TABLES.includes(file))).toEqual([]);
  });

  test("no variable of a module changes, except the exit code of main.ts", () => {
    const changing = files.filter((file) => /^(export )?let /m.test(codeOf(file)));
    expect(changing).toEqual(["src/main.ts"]);
  });

  test("SQL of the state is written in the journal and in the store of imports only", () => {
    const sql = /\b(SELECT .* FROM|INSERT (OR \w+ )?INTO|UPDATE \w+ SET|DELETE FROM|CREATE TABLE)\b/;
    const elsewhere = files.filter((file) => !SQL_PLACES.test(file) && sql.test(codeOf(file)));
    expect(elsewhere).toEqual([]);
  });

  test("time limits are made in one place: Node may collect other timeout signals, and they never abort", () => {
    const making = files.filter((file) => codeOf(file).includes("AbortSignal.timeout("));
    expect(making).toEqual(["src/core/timeout.ts"]);
  });

  test("only the Kafka client imports kafkajs", () => {
    // Also by the name of a file inside the package, as in import(`kafkajs/src/…`).
    const importing = files.filter((file) => /["'`]kafkajs["'`/]/.test(codeOf(file)));
    expect(importing.length).toBeGreaterThan(3);
    expect(importing.filter((file) => !file.startsWith(KAFKA_CLIENT))).toEqual([]);
  });

  test("a name that is exported from src/ means one thing", () => {
    const places = new Map<string, string[]>();
    for (const file of files.filter((name) => name.startsWith("src/")))
      for (const [, name] of codeOf(file).matchAll(
        /^export (?:async )?(?:function\*?|interface|type|class|const) (\w+)/gm,
      ))
        places.set(name!, [...(places.get(name!) ?? []), file]);
    const twice = [...places].filter(([, list]) => list.length > 1);
    expect(twice.map(([name, list]) => `${name}: ${list.join(", ")}`)).toEqual([]);
  });

  test("no two migrations have the same number", () => {
    const numbers = migrations().map(({ number }) => number);
    expect(new Set(numbers).size).toBe(numbers.length);
  });

  test("only main.ts touches process, and the binding looks at its version", () => {
    const touching = files.filter((file) => {
      const code = codeOf(file);
      return /(?<![\w.$-])process\s*(\.\w|\[)/.test(code) || /node:process|from "process"/.test(code);
    });
    expect(touching).toEqual(["src/main.ts", BINDING]);
  });

  test("polling and delivery have their time from the clock alone", () => {
    const parts = files.filter((file) => ["delivery", "polling"].includes(placeOf(file).part));
    const reading = parts.filter((file) =>
      /\bDate\.now\(\)|\bsetTimeout\(|\bsetInterval\(/.test(codeOf(file)),
    );
    expect(reading).toEqual([]);
  });

  test.each([
    ["sinks", sinks.length],
    ["formats", formats.length],
    ["services", services.length],
  ])("every component of %s is in its index", (folder, count) => {
    const defined = readdirSync(`src/${folder}`, { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".ts"))
      .filter((name) =>
        /^export const \w+(: \w+(<[^=]*>)?)? = define(Sink|Format|Service)\b/m.test(
          readFileSync(`src/${folder}/${name}`, "utf8"),
        ),
      )
      .toSorted();
    const index = readFileSync(`src/${folder}/index.ts`, "utf8");
    for (const name of defined) expect(index).toContain(`from "./${name}"`);
    expect(defined.length).toBeGreaterThan(3);
    expect(count).toBeGreaterThanOrEqual(defined.length);
  });

  test("types, names and promises of components are their own", () => {
    const own = (list: readonly string[]) => expect(new Set(list).size).toBe(list.length);
    own(sinks.map(({ type }) => type));
    own(formats.map(({ name }) => name));
    own(services.map(({ name }) => name));
    for (const { type, defaultFormat } of sinks)
      expect(
        formats.map(({ name }) => name),
        type,
      ).toContain(defaultFormat);
  });

  test("every package that is imported is a dependency", () => {
    const { dependencies, optionalDependencies } = JSON.parse(readFileSync("package.json", "utf8")) as Record<
      string,
      Record<string, string>
    >;
    const declared = { ...dependencies, ...optionalDependencies };
    const used = new Set(
      files.flatMap((file) =>
        [...codeOf(file).matchAll(/(?:^(?:import|export)\b[^;"]*from\s*|\bimport\()"(@?[a-z][\w./-]*)"/gm)]
          .map(([, name]) => name!)
          .filter((name) => !name.startsWith("node:"))
          .map((name) =>
            name
              .split("/")
              .slice(0, name.startsWith("@") ? 2 : 1)
              .join("/"),
          ),
      ),
    );
    const optional = ["kafkajs-snappy", "kafkajs-lz4"];
    expect([...used].filter((name) => !(name in declared) && !optional.includes(name))).toEqual([]);
  });
});

function placeOf(file: string): { readonly layer: Layer; readonly part: string } {
  const [root, first, ...rest] = file.split("/") as [string, string, ...string[]];
  if (root === SIMULATOR) return { layer: "part", part: SIMULATOR };
  if (rest.length === 0) {
    if (first === "main.ts") return { layer: "main", part: "main" };
    if (first === "app.ts") return { layer: "app", part: "app" };
    if (first === "telemetry.ts") return { layer: "part", part: "telemetry" };
    if (first === "version.ts") return { layer: "core", part: "core" };
  }
  if (first === "commands" || first === "app" || first === "config" || first === "core")
    return { layer: first, part: first };
  if (PARTS.includes(first)) return { layer: "part", part: first };
  throw new Error(
    `${file} belongs to no layer: put it where it belongs, or name the new one here and in the design.`,
  );
}

function importsOf(file: string): Import[] {
  const code = codeOf(file);
  const found: Import[] = [];
  const add = (path: string) => {
    if (path.startsWith(".")) found.push({ from: file, to: normalize(join(dirname(file), path)) });
  };
  for (const [, path] of code.matchAll(/(?:import|export)\s+[^;"]*?\s*from\s*"([^"]+)"/g)) add(path!);
  for (const [, path] of code.matchAll(/import\(\s*"([^"]+)"\s*\)/g)) add(path!);
  for (const [, path] of code.matchAll(/new URL\(\s*"([^"]+\.ts)"/g)) add(path!);
  return found;
}

/** Without comments, so that prose is not taken for code. */
function codeOf(file: string): string {
  return readFileSync(file, "utf8")
    .replace(/\/\*[\s\S]*?\*\//g, "")
    .replace(/^\s*\/\/.*$/gm, "");
}

function text({ from, to }: Import): string {
  return `${from} → ${to}`;
}
