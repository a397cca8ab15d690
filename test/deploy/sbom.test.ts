import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
const bill = () =>
  execFileSync(process.execPath, ["deploy/sbom.js"], {
    cwd: ROOT,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });

interface Lock {
  readonly packages: Record<
    string,
    { version: string; dev?: boolean; optional?: boolean; integrity?: string }
  >;
}

it("gives the same bill of materials twice, with every shipped package of the lockfile and its hash", () => {
  const text = bill();
  expect(bill()).toBe(text);
  const { components, bomFormat } = JSON.parse(text) as {
    bomFormat: string;
    components: { name: string; version: string; hashes: { alg: string; content: string }[] }[];
  };
  const lock = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")) as Lock;
  const shipped = Object.entries(lock.packages).filter(([path, entry]) => path !== "" && !entry.dev);
  const listed = new Map(components.map((part) => [`${part.name}@${part.version}`, part.hashes]));
  expect(bomFormat).toBe("CycloneDX");
  expect(shipped.length).toBeGreaterThan(50);
  for (const [path, { version, integrity }] of shipped) {
    const name = `${path.slice(path.lastIndexOf("node_modules/") + 13)}@${version}`;
    const [algorithm, digest] = integrity!.split("-");
    expect(algorithm).toBe("sha512");
    expect(listed.get(name)?.[0]?.content, name).toBe(Buffer.from(digest!, "base64").toString("hex"));
  }
});
