import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { parseConfig } from "../../src/config/load.ts";
import { skipUnless } from "../support/components.ts";
import {
  findHelm,
  findKubeconform,
  findKubernetesSchemas,
  KUBE_VERSION,
  KUBERNETES_VERSIONS,
} from "./components.ts";

const CHART = join(import.meta.dirname, "../../deploy/kubernetes/tidemark");
const helm = await findHelm();
const kubeconform = await findKubeconform();
const schemas = await findKubernetesSchemas();
const folder = mkdtempSync(join(tmpdir(), "tidemark-chart-"));

afterAll(() => rmSync(folder, { recursive: true }));

// biome-ignore lint/suspicious/noExplicitAny: manifests have every shape.
type Manifest = any;

function render(values: object = {}): string {
  const file = join(folder, "values.json");
  writeFileSync(file, JSON.stringify(values));
  return execFileSync(
    helm!,
    ["template", "demo", CHART, ...KUBE_VERSION, "--namespace", "audit", "--values", file],
    {
      encoding: "utf8",
    },
  );
}

function manifests(values: object = {}): ReadonlyMap<string, Manifest> {
  const documents = parseAllDocuments(render(values)) as { toJS(): Manifest }[];
  return new Map(documents.map((document) => document.toJS()).map((manifest) => [manifest.kind, manifest]));
}

/** The ServiceMonitor belongs to an operator, not to Kubernetes. */
function conform(text: string, version: string): Manifest {
  const template = `${schemas}/v${version}-local-strict/{{.ResourceKind}}{{.KindSuffix}}.json`;
  const args = ["-summary", "-output", "json", "-schema-location", template, "-skip", "ServiceMonitor"];
  return JSON.parse(spawnSync(kubeconform!, args, { input: text, encoding: "utf8" }).stdout);
}

const podOf = (all: ReadonlyMap<string, Manifest>) => all.get("StatefulSet").spec.template.spec;

describe.skipIf(skipUnless("helm", helm, "go install helm.sh/helm/v3/cmd/helm@v3.22.0"))("the chart", () => {
  it("passes helm's own lint, warnings included", () => {
    const lint = spawnSync(helm!, ["lint", "--strict", ...KUBE_VERSION, CHART], { encoding: "utf8" });
    expect(lint.stdout + lint.stderr).not.toMatch(/\[(ERROR|WARNING)\]/);
    expect(lint.status).toBe(0);
  });

  it("writes a config that the program accepts, with the Service's names among the server's hosts", () => {
    const text = manifests({ hosts: ["audit.example"] }).get("ConfigMap").data["tidemark.yaml"];
    const { server, state } = parseConfig(text, "the chart's config");
    expect(server!.hosts).toEqual([
      "demo-tidemark",
      "demo-tidemark.audit",
      "demo-tidemark.audit.svc",
      "demo-tidemark.audit.svc.cluster.local",
      "audit.example",
    ]);
    expect(state).toBe("/var/lib/tidemark/tidemark.db");
  });

  it("runs one replica as a plain user on a read-only file system, with one volume", () => {
    const all = manifests();
    const pod = podOf(all);
    expect(all.get("StatefulSet").spec.replicas).toBe(1);
    expect(all.get("StatefulSet").spec.volumeClaimTemplates).toHaveLength(1);
    expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 1000 });
    expect(pod.automountServiceAccountToken).toBe(false);
    for (const { securityContext } of [...pod.initContainers, ...pod.containers]) {
      expect(securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      });
    }
  });

  it("runs a pod for each shard, which takes its number from its name and shows the others", () => {
    const documents = parseAllDocuments(render({ shards: 3 })) as { toJS(): Manifest }[];
    const all = documents.map((document) => document.toJS());
    const set = all.find(({ kind }) => kind === "StatefulSet");
    const config = parseConfig(
      all.find(({ kind }) => kind === "ConfigMap").data["tidemark.yaml"],
      "the chart's config",
      { TIDEMARK_SHARD: "demo-tidemark-2" },
    );
    expect(config.shard).toEqual({ index: 2, count: 3 });
    expect(set.spec).toMatchObject({ replicas: 3, serviceName: "demo-tidemark-shards" });
    expect(set.spec.template.spec.containers[0].env).toEqual([
      { name: "TIDEMARK_SHARD", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } },
    ]);
    const { peers, hosts } = config.server!;
    expect(peers!.addresses).toHaveLength(3);
    for (const address of peers!.addresses) expect(hosts).toContain(new URL(address).hostname);
    const headless = all.find(({ metadata }) => metadata.name === "demo-tidemark-shards");
    expect(headless.spec.clusterIP).toBe("None");
    expect(headless.spec.ports[0].port).toBe(Number(new URL(peers!.addresses[0]!).port));
    const { ingress, egress } = all.find(({ kind }) => kind === "NetworkPolicy").spec;
    const own = { matchLabels: set.spec.selector.matchLabels };
    expect(ingress[0].from).toEqual([{ podSelector: own }]);
    expect(egress[0].to).toEqual([{ podSelector: own }]);
  });

  it("runs the machines of a cluster as a Deployment, or with volumes as a StatefulSet", () => {
    const config = { cluster: { name: "prod", brokers: ["kafka:9092"] }, state: "/var/lib/tidemark/lanes" };
    const machines = manifests({ config, cluster: { replicas: 3 } });
    expect(machines.get("StatefulSet")).toBeUndefined();
    const { spec } = machines.get("Deployment");
    expect(spec.replicas).toBe(3);
    expect(spec.template.spec.volumes.find(({ name }: Manifest) => name === "state").emptyDir).toBeDefined();
    const kept = manifests({ config, cluster: { replicas: 3, persistent: true } });
    expect(kept.get("Deployment")).toBeUndefined();
    expect(kept.get("StatefulSet").spec).toMatchObject({ replicas: 3, podManagementPolicy: "Parallel" });
    expect(() => render({ cluster: { replicas: 3 } })).toThrow(/needs config.cluster/);
    expect(() => render({ config, shards: 2, cluster: { replicas: 3 } })).toThrow(/either shards or/);
  });

  const archive = { enabled: true, origin: "example.com/audit-archive" };

  it("adds an archive with a volume of its own and the signing key from a Secret", () => {
    const all = manifests({ archive });
    const { sinks } = parseConfig(all.get("ConfigMap").data["tidemark.yaml"], "the chart's config");
    expect(sinks.map(({ type }) => type)).toEqual(["file", "archive"]);
    expect(sinks[1]).toMatchObject({
      name: "evidence",
      origin: "example.com/audit-archive",
      keep: "7y",
      store: { directory: "/var/lib/tidemark-archive" },
    });
    const { volumeClaimTemplates } = all.get("StatefulSet").spec;
    expect(volumeClaimTemplates.map(({ metadata }: Manifest) => metadata.name)).toEqual(["state", "archive"]);
    expect(volumeClaimTemplates[1].spec.resources.requests.storage).toBe("50Gi");
    const pod = podOf(all);
    const folders = pod.containers[0].volumeMounts.map(({ mountPath }: Manifest) => mountPath);
    expect(folders).toContain("/var/lib/tidemark-archive");
    expect(folders).not.toContain("/run/tidemark/mounted-archive");
    const keyVolume = (values: object) =>
      podOf(manifests(values)).volumes.find(({ name }: Manifest) => name === "mounted-archive-key").secret;
    expect(keyVolume({ archive })).toEqual({
      secretName: "tidemark",
      defaultMode: 0o400,
      items: [{ key: "archive-key", path: "key" }],
    });
    expect(keyVolume({ archive: { ...archive, existingSecret: "signing" } }).secretName).toBe("signing");
  });

  it("copies the signing key to the path that the config names, with mode 0400", () => {
    const [command] = podOf(manifests({ archive })).initContainers.map((one: Manifest) => one.command);
    const text = manifests({ archive }).get("ConfigMap").data["tidemark.yaml"] as string;
    const target = /file: (\S+archive-key)/.exec(text)![1]!;
    // The command as the pod runs it, with the mounted folders below a temporary one.
    const root = join(folder, "pod");
    for (const path of ["mounted", "mounted-archive", "secrets"])
      mkdirSync(join(root, "run/tidemark", path), { recursive: true });
    writeFileSync(join(root, "run/tidemark/mounted/archive-key"), "the Secret's own", { mode: 0o440 });
    writeFileSync(join(root, "run/tidemark/mounted-archive/key"), "signing key", { mode: 0o440 });
    execFileSync("sh", ["-c", command[2].replaceAll("/run/", `${root}/run/`)]);
    expect(readFileSync(join(root, target), "utf8")).toBe("signing key");
    expect(statSync(join(root, target)).mode & 0o777).toBe(0o400);
  });

  it("adds an archive in a bucket without a volume, for a role or with credentials in the Secret", () => {
    const s3 = {
      bucket: "audit",
      region: "eu-central-1",
      accessKeyId: { file: "/run/tidemark/secrets/s3-id" },
      secretAccessKey: { file: "/run/tidemark/secrets/s3-secret" },
      objectLock: { mode: "compliance", days: 365 },
    };
    const annotations = { "eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/archive" };
    const all = manifests({ archive: { ...archive, s3 }, serviceAccount: { annotations } });
    const { sinks } = parseConfig(all.get("ConfigMap").data["tidemark.yaml"], "the chart's config");
    expect(sinks[1]).toMatchObject({ store: { s3: { bucket: "audit", objectLock: { days: 365 } } } });
    expect(all.get("StatefulSet").spec.volumeClaimTemplates).toHaveLength(1);
    expect(all.get("ServiceAccount").metadata.annotations).toEqual(annotations);
  });

  it("refuses an archive without an origin, with a wrong one, and on the volume of one machine in a cluster", () => {
    expect(() => render({ archive: { enabled: true } })).toThrow(/archive.enabled needs archive.origin/);
    expect(() => render({ archive: { enabled: true, origin: "a b c" } })).toThrow(/values don't meet/);
    const config = { cluster: { name: "prod", brokers: ["kafka:9092"] }, state: "/var/lib/tidemark/lanes" };
    const values = { config, cluster: { replicas: 3 } };
    expect(() => render({ archive, ...values })).toThrow(/With cluster.replicas an archive needs archive.s3/);
    // A cluster refuses the file sink of the chart's own config.
    const lake = { name: "lake", type: "kafka", brokers: ["kafka:9092"], topic: "events" };
    const bucket = { ...archive, s3: { bucket: "audit" } };
    const all = manifests({ ...values, archive: bucket, config: { ...config, sinks: [lake] } });
    const { sinks } = parseConfig(all.get("ConfigMap").data["tidemark.yaml"], "the chart's config");
    expect(sinks.map(({ type }) => type)).toEqual(["kafka", "archive"]);
  });

  it("gives secrets as files with mode 0400, never as environment variables", () => {
    const pod = podOf(manifests());
    const secret = pod.volumes.find((volume: Manifest) => volume.secret);
    expect(secret.secret).toEqual({ secretName: "tidemark", defaultMode: 0o400 });
    expect(pod.containers[0].env).toBeUndefined();
    expect(pod.containers[0].volumeMounts.map((mount: Manifest) => mount.name)).not.toContain(secret.name);
  });

  it("names the image by digest when one is given, and refuses what is none", () => {
    const digest = `sha256:${"0123456789abcdef".repeat(4)}`;
    const [container] = podOf(manifests({ image: { digest } })).containers;
    expect(container.image).toBe(`tidemark@${digest}`);
    expect(podOf(manifests()).containers[0].image).toMatch(/^tidemark:\d/);
    expect(() => render({ image: { digest: "latest" } })).toThrow(/values don't meet the specifications/);
  });

  it("admits only peers that are named, in both directions", () => {
    const { spec } = manifests().get("NetworkPolicy");
    expect(spec.ingress).toEqual([]);
    for (const rule of spec.egress) expect(rule.to.length).toBeGreaterThan(0);
    const from = [{ namespaceSelector: { matchLabels: { name: "monitoring" } } }];
    expect(manifests({ networkPolicy: { from } }).get("NetworkPolicy").spec.ingress[0].from).toEqual(from);
  });

  it("probes /livez for life and /readyz for traffic", () => {
    const [container] = podOf(manifests()).containers;
    expect(container.livenessProbe.httpGet).toEqual({ path: "/livez", port: "http" });
    expect(container.readinessProbe.httpGet).toEqual({ path: "/readyz", port: "http" });
  });

  it("refuses values that cannot work", () => {
    for (const values of [
      { replicas: 2 },
      { config: { server: { host: "127.0.0.1" } } },
      { config: { state: "/tmp/tidemark.db" } },
      { networkPolicy: { ports: [] } },
    ]) {
      expect(() => render(values), JSON.stringify(values)).toThrow(/values don't meet the specifications/);
    }
  });

  const cluster = { name: "prod", brokers: ["kafka:9092"] };
  const variants = {
    "as it comes": {},
    "with three shards": { shards: 3 },
    "as a cluster": { config: { cluster, state: "/var/lib/tidemark/lanes" }, cluster: { replicas: 3 } },
    "with an archive": { archive },
    "with an archive in a bucket, and shards": {
      shards: 3,
      archive: { ...archive, s3: { bucket: "audit" } },
    },
    "with everything set": {
      archive,
      serviceAccount: { annotations: { "eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/archive" } },
      hosts: ["audit.example"],
      serviceMonitor: { enabled: true, labels: { release: "prometheus" } },
      networkPolicy: {
        from: [{ namespaceSelector: { matchLabels: { name: "monitoring" } } }],
        to: [{ ipBlock: { cidr: "0.0.0.0/0" } }],
        ports: [443, 9092],
      },
      persistence: { storageClass: "fast" },
      imagePullSecrets: [{ name: "pull" }],
      extraEnv: [{ name: "OTEL_SERVICE_NAME", value: "tidemark" }],
      podAnnotations: { team: "security" },
      nodeSelector: { disk: "ssd" },
      tolerations: [{ key: "audit", operator: "Exists" }],
      affinity: { nodeAffinity: {} },
    },
  };
  const found = kubeconform && schemas;
  describe.skipIf(
    skipUnless("kubeconform", found, "go install …/kubeconform; pip download kubernetes-validate"),
  )("against Kubernetes' schemas", () => {
    it.each(
      Object.entries(variants).flatMap(([name, values]) =>
        KUBERNETES_VERSIONS.map((version) => [name, version, values] as const),
      ),
    )("is valid %s, for Kubernetes %s", (_name, version, values) => {
      const { resources, summary } = conform(render(values), version);
      expect(resources ?? []).toEqual([]);
      expect(summary).toMatchObject({ valid: "shards" in values ? 7 : 6, invalid: 0, errors: 0 });
    });

    it("is not called valid with a field that Kubernetes does not know", () => {
      const { summary } = conform(render().replace("replicas: 1", "replica: 1"), KUBERNETES_VERSIONS[1]);
      expect(summary).toMatchObject({ valid: 5, invalid: 1 });
    });
  });
});
