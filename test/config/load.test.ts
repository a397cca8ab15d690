import { chmodSync, mkdirSync, realpathSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { inspect } from "node:util";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { loadConfig, parseConfig } from "../../src/config/load.ts";
import { UsageError } from "../../src/core/errors.ts";
import { temporaryFolder } from "../journal/support.ts";

const SECRET = "hunter2hunter2";
const ACCOUNT = "{ name: acme, region: us, apiKey: { env: KEY } }";
const SINK = "{ name: disk, type: file, directory: ./events }";

/** The problems of a config, one a line, without the file's name. */
function problems(text: string): string[] {
  try {
    parseConfig(text, "tidemark.yaml");
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    expect(inspect(error, { depth: 9 })).not.toContain(SECRET);
    const [first, ...lines] = (error as Error).message.split("\n");
    expect(first).toMatch(/^The config file tidemark\.yaml has (one problem|\d+ problems):$/);
    return lines.map((line) => line.replace(/^ {2}- /, ""));
  }
  return [];
}

const withSink = (sink: string) => problems(`accounts: [${ACCOUNT}]\nsinks: [${sink}]\n`);
const withAccount = (account: string) => problems(`accounts: [${account}]\nsinks: [${SINK}]\n`);

describe("checking a config", () => {
  test("refuses a sweep that comes when the service has forgotten the window", () => {
    const account = "{ name: acme, region: us, apiKey: { env: KEY }, retention: 15d }";
    const withSweeps = (sweeps: string) =>
      problems(`accounts: [${account}]\nsinks: [${SINK}]\npolling: { sweeps: [${sweeps}] }\n`);
    expect(withSweeps("10m, 20d")).toEqual([
      expect.stringMatching(
        /^accounts\[0\]\.retention: is "15d"; the last of "polling\.sweeps" comes 20d after/,
      ),
    ]);
    expect(withSweeps("10m, 14d")).toEqual([]);
  });

  test("refuses an interval of polls that names no time, which would end the program at its first use", () => {
    const withInterval = (interval: string) =>
      problems(`accounts: [${ACCOUNT}]\nsinks: [${SINK}]\npolling: { interval: "${interval}" }\n`);
    for (const [interval, why] of [
      ["0 0 30 2 *", "30 2 is an impossible day"],
      ["61 * * * *", "61 is a invalid expression for minute"],
      ["x x x x x", "x is a invalid expression for minute"],
      ["*/10 * * * * *", "a schedule has whole minutes"],
    ] as const) {
      const [problem, ...others] = withInterval(interval);
      expect(problem).toContain(`polling.interval: is "${interval}"; `);
      expect(problem).toContain(why);
      expect(problem).toContain("or write a duration such as 30s");
      expect(others).toEqual([]);
    }
    expect(withInterval("soon")).toEqual([expect.stringContaining("write a duration such as 30s")]);
    for (const fine of ["30s", "*/5 * * * *", "0 */5 * * * *"]) expect(withInterval(fine)).toEqual([]);
  });

  test("takes the least there can be, and fills in the rest", () => {
    const config = parseConfig(`accounts: [${ACCOUNT}]\nsinks: [${SINK}]\n`, "x");
    expect(config).toMatchObject({
      state: "./tidemark.db",
      journal: { budget: 10_000_000_000 },
      drift: true,
      imports: [],
      log: { level: "info" },
      accounts: [{ name: "acme", services: ["all"], since: 90 * 86_400_000 }],
    });
    expect(config.server).toBeUndefined();
  });

  test("tells everything that is wrong at once, with path, value and remedy", () => {
    const found = problems(`
accounts:
  - { name: "a b", region: xx, apiKey: ${SECRET} }
  - { name: twice, apiKey: { env: KEY } }
  - { name: twice, region: us, apiKey: { env: KEY } }
sinks:
  - { name: one, type: fil }
  - { name: one, type: file, directory: 5, format: { type: ocsf, bogus: 1 }, only: { services: [] } }
  - { name: two, type: console, start: soon }
  - 7
imports:
  - { name: x, account: nobody, application: a }
sink: 3
state: ""
journal: { budget: 5 }
`);
    expect(found.map(withoutLists).toSorted()).toEqual(
      [
        'accounts[0].name: is "a b"; up to 64 letters, digits, dots, dashes and underscores',
        'accounts[0].region: is "xx"; use one of …',
        "accounts[0].apiKey: is [not shown]; a secret is written as { env: NAME } or { file: PATH }, never as its value: put it into an environment variable or a file",
        "accounts[1].region: is missing; set region to us, eu or in, or give both insightsUrl and managementUrl",
        'accounts[2].name: is "twice"; the name is used twice: give each of the accounts its own',
        'sinks[0].type: "fil" is not a type of sink; did you mean file? use one of …',
        "sinks[1].directory: is 5; it must be a string",
        "sinks[1].format.bogus: this key is not known; it takes …",
        "sinks[1].only.services: is a list; it must not be empty",
        'sinks[1].name: is "one"; the name is used twice: give each of the sinks its own',
        'sinks[2].start: is "soon"; write beginning, now, or a time such as 2026-01-31T00:00:00Z',
        "sinks[3]: is 7; it must be a section with keys of its own",
        'imports[0].account: is "nobody"; name one of the accounts',
        'sink: this key is not known; did you mean "sinks"?',
        'state: is ""; it must not be empty',
        "journal.budget: is 5; at least 10000000 bytes",
      ].toSorted(),
    );
  });

  test.each([
    ["7", "the file: is 7; it must be a section with keys of its own"],
    ["[]", "the file: is a list; it must be a section with keys of its own"],
    ["accounts: {}\nsinks: []", "accounts: is an object; it must be a list"],
    [`accounts: []\nsinks: [${SINK}]`, "accounts: is a list; it must not be empty"],
  ])("%j is no config", (text, problem) => {
    expect(problems(text)).toContain(problem);
  });

  test.each(["", "~", "# only a comment\n"])("%j is an empty file, in plain words", (text) => {
    expect(() => parseConfig(text, "tidemark.yaml")).toThrow(
      'The config file tidemark.yaml is empty. Write one with "tidemark init --force --output tidemark.yaml".',
    );
  });

  test.each([
    ["organisations", "organizations"],
    ["orgnaizations", "organizations"],
    ["apikey", "apiKey"],
    ["insightsURL", "insightsUrl"],
  ])("a misspelt key %s brings the question for %s", (given, meant) => {
    const account = `{ name: a, region: us, apiKey: { env: KEY }, ${given}: x }`;
    expect(problems(`accounts: [${account}]\nsinks: [${SINK}]`)).toContain(
      `accounts[0].${given}: this key is not known; did you mean "${meant}"?`,
    );
  });

  test.each([
    [
      "an unknown key",
      "{ name: disk, type: file, directory: x, dirctory: y }",
      'sinks[0].dirctory: this key is not known; did you mean "directory"?',
    ],
    [
      "a key of another kind of sink",
      "{ name: s, type: console, brokers: [a] }",
      "sinks[0].brokers: this key is not known",
    ],
    ["no type", "{ name: s, directory: x }", "sinks[0].type: is missing; use one of "],
    [
      "a format that is none",
      "{ name: s, type: console, format: xml }",
      'sinks[0].format: is "xml"; use one of raw',
    ],
    ["an unknown kind of format", "{ name: s, type: console, format: { type: xml } }", "sinks[0].format"],
    ["an over-long name", `{ name: ${"x".repeat(65)}, type: console }`, "sinks[0].name: is"],
    ["a name of the program's own", "{ name: ~imports, type: console }", "sinks[0].name"],
  ])("a sink with %s", (_, sink, problem) => {
    expect(withSink(sink).join("\n")).toContain(problem);
  });

  test.each([
    [
      "neither key nor oauth",
      "{ name: a, region: us }",
      "accounts[0].apiKey: is missing; give either apiKey or oauth",
    ],
    [
      "both",
      "{ name: a, region: us, apiKey: { env: K }, oauth: { clientId: c, clientSecret: { env: S } } }",
      "give either apiKey or oauth",
    ],
    [
      "plain http",
      "{ name: a, insightsUrl: 'http://h.example', managementUrl: 'https://h.example', apiKey: { env: K } }",
      'accounts[0].insightsUrl: is "http://h.example"; use https',
    ],
    [
      "a duration that is none",
      "{ name: a, region: us, apiKey: { env: K }, since: forever }",
      'accounts[0].since: is "forever"; write a duration',
    ],
  ])("an account with %s", (_, account, problem) => {
    expect(withAccount(account).join("\n")).toContain(problem);
  });

  test.each([
    "{ name: s, type: splunk_hec, url: 'http://siem.example:8088', token: { env: T } }",
    "{ name: s, type: http, url: 'http://siem.example', headers: { Authorization: { env: T } } }",
    "{ name: s, type: http, url: 'http://siem.example', hmac: { secret: { env: T } } }",
    "{ name: s, type: opensearch, url: 'http://search.example', username: u, password: { env: T } }",
    "{ name: s, type: elasticsearch, url: 'http://search.example', apiKey: { env: T } }",
    "{ name: s, type: otlp, url: 'http://otel.example', headers: { key: { env: T } } }",
    "{ name: s, type: datadog, url: 'http://proxy.example', apiKey: { env: T } }",
    "{ name: s, type: s3, bucket: b, endpoint: 'http://store.example', accessKeyId: { env: T }, secretAccessKey: { env: T } }",
  ])("secrets over plain http need plainHttp: true: %s", (sink) => {
    expect(withSink(sink).join("\n")).toContain("use https, or set plainHttp: true");
    expect(withSink(sink.replace(/ }$/, ", plainHttp: true }"))).toEqual([]);
    expect(withSink(sink.replace(/http:\/\/[a-z.]+/, "http://127.0.0.1"))).toEqual([]);
  });

  test("plain http is fine where no secret is sent", () => {
    expect(withSink("{ name: s, type: opensearch, url: 'http://search.example' }")).toEqual([]);
  });

  test("the address of Kafka's authorization server needs plainHttp: true too", () => {
    const sink = (more: string) =>
      `{ name: s, type: kafka, brokers: ['k:9092'], topic: t, sasl: { mechanism: oauthbearer, tokenUrl: 'http://idp.example/token', clientId: c, clientSecret: { env: T }${more} } }`;
    expect(withSink(sink("")).join("\n")).toContain("sinks[0].sasl.tokenUrl");
    expect(withSink(sink(", plainHttp: true"))).toEqual([]);
  });

  test("a literal secret is refused wherever one belongs, and never printed", () => {
    for (const sink of [
      `{ name: s, type: splunk_hec, url: 'https://x', token: ${SECRET} }`,
      `{ name: s, type: datadog, apiKey: ${SECRET} }`,
      `{ name: s, type: sumo, url: 'https://x/${SECRET}' }`,
      `{ name: s, type: kafka, brokers: [a], topic: t, sasl: { mechanism: plain, username: u, password: ${SECRET} } }`,
      `{ name: s, type: elasticsearch, url: 'https://u:${SECRET}@x' }`,
      `{ name: s, type: http, url: 'https://x', headers: { Authorization: [${SECRET}] } }`,
      `{ name: s, type: http, url: 'https://x', hmac: ${SECRET} }`,
      `{ name: s, type: console, token: ${SECRET} }`,
    ])
      expect(withSink(sink), sink).not.toEqual([]);
    expect(withAccount(`{ name: a, region: us, apiKey: [${SECRET}] }`)).not.toEqual([]);
  });

  test.each([
    "apiKey: 'SECRET",
    'apiKey: "SECRET" SECRET',
    "apiKey: SECRET: x",
    "- SECRET\nfoo: SECRET",
    "[SECRET, ",
    "a: *SECRET",
    'a: "\\qSECRET"',
    "a: {{SECRET}}",
    "a: 1\n---\nb: SECRET",
    "a: !SECRET b",
    "\tSECRET: [",
    "SECRET\n: SECRET\n  - :",
    "a: |\nSECRET\n b",
  ])("text that is no YAML is refused without being quoted: %j", (text) => {
    expect(problems(text.replaceAll("SECRET", SECRET))).not.toEqual([]);
  });

  test("R22 two sinks in one directory are refused, however the path is written", () => {
    const other = (directory: string) => `{ name: other, type: file, directory: ${directory} }`;
    for (const directory of ["./events", "events/", "./a/../events"])
      expect(withSink(`${SINK}, ${other(directory)}`)).toEqual([
        expect.stringMatching(
          /^sinks\[1\]\.directory: is ".+"; another sink writes to this directory: give each sink its own/,
        ),
      ]);
    expect(withSink(`${SINK}, ${other("./events2")}`)).toEqual([]);
  });

  test("a key given twice is refused", () => {
    expect(problems(`accounts: [${ACCOUNT}]\nsinks: [${SINK}]\nstate: a\nstate: b`)[0]).toContain(
      "Map keys must be unique at line 4",
    );
  });

  test("aliases cannot blow it up", () => {
    const levels = Array.from(
      { length: 12 },
      (_, at) =>
        `a${at}: &a${at} [${
          at === 0
            ? "x"
            : Array(10)
                .fill(`*a${at - 1}`)
                .join(",")
        }]`,
    );
    expect(problems(levels.join("\n"))).not.toEqual([]);
  });
});

describe("loading a config", () => {
  let folder: ReturnType<typeof temporaryFolder>;
  beforeEach(() => {
    folder = temporaryFolder();
  });
  afterEach(() => folder.remove());

  const at = (name: string) => join(folder.path, name);

  function write(name: string, text: string, mode = 0o600): string {
    writeFileSync(at(name), text);
    chmodSync(at(name), mode);
    return at(name);
  }

  function failure(text: string, env: Record<string, string> = {}): string {
    try {
      loadConfig(write("tidemark.yaml", text), env);
    } catch (error) {
      expect(error).toBeInstanceOf(UsageError);
      return (error as Error).message;
    }
    throw new Error("It was loaded.");
  }

  const withKey = (key: string) => `accounts: [{ name: a, region: us, apiKey: ${key} }]\nsinks: [${SINK}]\n`;

  test("finds secrets in variables and files, without the line break at their end", () => {
    write("key", `${SECRET}\n`);
    const text = `accounts:
  - { name: a, region: us, apiKey: { file: ${at("key")} } }
  - { name: b, region: us, apiKey: { env: KEY } }
sinks: [{ name: s, type: splunk_hec, url: 'https://x', token: { env: TOKEN } }]`;
    const { config } = loadConfig(write("tidemark.yaml", text), { KEY: "k", TOKEN: "t" });
    expect(config.accounts.map(({ apiKey }) => apiKey!.reveal())).toEqual([SECRET, "k"]);
    expect((config.sinks[0] as unknown as { token: { reveal(): string } }).token.reveal()).toBe("t");
    for (const text of [JSON.stringify(config), inspect(config, { depth: 20 })])
      expect(text).not.toContain(SECRET);
  });

  test.each([
    ["a byte order mark", `\uFEFF${SECRET}\r\n`],
    ["several line ends", `${SECRET}\r\n\n`],
  ])("%s beside a secret in a file does not count", (_, content) => {
    write("key", content);
    const file = write("tidemark.yaml", withKey(`{ file: ${at("key")} }`));
    expect(loadConfig(file, {}).config.accounts[0]!.apiKey!.reveal()).toBe(SECRET);
  });

  test.each([
    ["blanks", ` ${SECRET} `],
    ["two lines", `${SECRET}\n${SECRET}`],
    ["other letters", `${SECRET}ü`],
  ])("a key with %s is refused with the account's name and the place of the key", (_, key) => {
    write("key", key);
    const words = 'accounts[0].apiKey: the API key of "a" holds blanks, line breaks or other characters';
    for (const [source, place] of [
      [`{ file: ${at("key")} }`, at("key")],
      ["{ env: KEY }", "the variable KEY"],
    ] as const) {
      const message = failure(withKey(source), { KEY: key });
      expect(message).toContain(words);
      expect(message).toContain(`write the key alone into ${place}`);
      expect(message).not.toContain(SECRET);
    }
  });

  test("R22 two sinks whose directories are one by a symbolic link are refused", () => {
    mkdirSync(at("one"));
    symlinkSync("one", at("link"));
    symlinkSync("later", at("early"));
    const sinks = (a: string, b: string) =>
      `accounts: [{ name: a, region: us, apiKey: { env: KEY } }]\nsinks: [{ name: a, type: file, directory: ${at(a)} }, { name: b, type: file, directory: ${at(b)} }]\n`;
    for (const [a, b] of [
      ["one", "link"],
      ["one/below", "link/below"],
      ["later", "early"],
    ] as const) {
      const message = failure(sinks(a, b), { KEY: "k" });
      expect(message).toContain("sinks[1].directory");
      expect(message).toContain("another sink writes to this directory (a symbolic link leads to");
    }
    expect(problems(sinks("one/a", "link/b"))).toEqual([]);
  });

  test("tells every secret that is missing at once", () => {
    const text = `accounts:
  - { name: a, region: us, apiKey: { env: NOT_SET } }
  - { name: b, region: us, apiKey: { env: EMPTY } }
  - { name: c, region: us, apiKey: { file: ${at("nothing")} } }
sinks: [{ name: s, type: kafka, brokers: ['a:1'], topic: t, sasl: { mechanism: plain, username: u, password: { env: PASSWORD } } }]`;
    const message = failure(text, { EMPTY: "" });
    expect(message).toContain("has 4 problems");
    expect(message).toContain("accounts[0].apiKey: the environment variable NOT_SET is not set");
    expect(message).toContain("accounts[1].apiKey: the environment variable EMPTY is not set");
    expect(message).toContain(`accounts[2].apiKey: ${at("nothing")} cannot be read (ENOENT)`);
    expect(message).toContain("sinks[0].sasl.password: the environment variable PASSWORD is not set");
  });

  test.each([0o640, 0o604, 0o620, 0o602, 0o610, 0o777])(
    "a secret's file with mode %o is refused, with the remedy",
    (mode) => {
      write("key", SECRET, mode);
      const message = failure(withKey(`{ file: ${at("key")} }`));
      expect(message).toContain(
        `${at("key")} can be read by its group or others; run chmod 600 ${at("key")}`,
      );
      expect(message).not.toContain(SECRET);
    },
  );

  test("an empty file and a folder hold no secret", () => {
    write("key", "\n");
    expect(failure(withKey(`{ file: ${at("key")} }`))).toContain("is empty");
    mkdirSync(at("folder"), { mode: 0o700 });
    expect(failure(withKey(`{ file: ${at("folder")} }`))).toContain("cannot be read (EISDIR)");
  });

  test("a file that is not there, or far too large, is refused with what to do", () => {
    expect(() => loadConfig(at("nothing.yaml"), {})).toThrow(
      /There is no config file .*--config FILE.*tidemark init/,
    );
    writeFileSync(at("large.yaml"), Buffer.alloc(10_000_001, 0x20));
    expect(() => loadConfig(at("large.yaml"), {})).toThrow(/10000001 bytes/);
  });
});

/** Lists of names grow with every sink and option. */
function withoutLists(problem: string): string {
  return problem.replace(/(it takes|use one of) .*/, "$1 …");
}

test("R15 a link to a state file is the file itself, so that what belongs beside it is found", () => {
  const folder = temporaryFolder();
  try {
    const at = (name: string) => join(folder.path, name);
    writeFileSync(at("state.db"), "");
    symlinkSync("state.db", at("link.db"));
    writeFileSync(at("a.yaml"), `accounts: [${ACCOUNT}]\nstate: ${at("link.db")}\nsinks: [${SINK}]\n`);
    expect(loadConfig(at("a.yaml"), { KEY: "k" }).config.state).toBe(realpathSync(at("state.db")));
  } finally {
    folder.remove();
  }
});
