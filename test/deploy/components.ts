import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fetchOnce, programOnPath, required } from "../support/components.ts";

const HELM = "3.22.0";
const KUBECONFORM = "0.8.0";
/** The Python package that carries Kubernetes' own JSON schemas, by version. */
const SCHEMAS = "1.37.0";
export const KUBERNETES_VERSIONS = ["1.30.0", "1.37.0"] as const;
/** A helm that was built from source takes a very old version when none is named. */
export const KUBE_VERSION = ["--kube-version", KUBERNETES_VERSIONS[1]] as const;

export function findHelm(): Promise<string | undefined> {
  return findGoProgram("helm", `helm-${HELM}`, `helm.sh/helm/v3/cmd/helm@v${HELM}`);
}

export function findKubeconform(): Promise<string | undefined> {
  const module = `github.com/yannh/kubeconform/cmd/kubeconform@v${KUBECONFORM}`;
  return findGoProgram("kubeconform", `kubeconform-${KUBECONFORM}`, module);
}

/** The folder with Kubernetes' schemas, one folder for each version, so that no check needs the network. */
export async function findKubernetesSchemas(): Promise<string | undefined> {
  return fetchOnce("kubeconform", `kubernetes-schemas-${SCHEMAS}`, async (target) => {
    const download = join(target, "download");
    mkdirSync(download);
    const wheel = `kubernetes-validate==${SCHEMAS}`;
    execFileSync("pip", ["download", "--no-deps", "--quiet", "-d", download, wheel], { stdio: "inherit" });
    const file = join(download, readdirSync(download).find((name) => name.endsWith(".whl"))!);
    execFileSync("python3", ["-m", "zipfile", "-e", file, download], { stdio: "inherit" });
    for (const version of KUBERNETES_VERSIONS) {
      const folder = `v${version}-local-strict`;
      const from = join(download, "kubernetes_validate", "kubernetes-json-schema", folder);
      renameSync(from, join(target, folder));
      for (const name of readdirSync(join(target, folder))) unbind(join(target, folder, name));
    }
    rmSync(download, { recursive: true });
  });
}

/** The schemas refer to each other by addresses of the network; here they lie beside each other. */
function unbind(file: string): void {
  const text = readFileSync(file, "utf8")
    .replace(/"\$id": "https:[^"]*"/, '"$comment": "moved"')
    .replaceAll('"$ref": "/api/_definitions.json#', '"$ref": "_definitions.json#');
  writeFileSync(file, text);
}

async function findGoProgram(
  name: "helm" | "kubeconform",
  folderName: string,
  module: string,
): Promise<string | undefined> {
  const found = programOnPath(name);
  if (found && !required(name)) return found;
  if (!programOnPath("go")) return found;
  const folder = await fetchOnce(name, folderName, async (target) => {
    execFileSync("go", ["install", module], { stdio: "inherit", env: { ...process.env, GOBIN: target } });
  });
  return folder ? join(folder, name) : found;
}
