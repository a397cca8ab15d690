import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

export interface Certificates {
  /** PEM files. */
  readonly ca: string;
  readonly otherCa: string;
  readonly server: { readonly cert: string; readonly key: string };
  readonly client: { readonly cert: string; readonly key: string };
  /** A client whose certificate ended in the past. */
  readonly expired: { readonly cert: string; readonly key: string };
}

/** An authority, another one, and a server (127.0.0.1) and a client that the first has signed; by openssl. */
export async function makeCertificates(folder: string): Promise<Certificates> {
  const ca = await makeAuthority(folder, "ca");
  const otherCa = await makeAuthority(folder, "other-ca");
  return {
    ca: ca.cert,
    otherCa: otherCa.cert,
    server: await sign(folder, "server", ca),
    client: await sign(folder, "client", ca),
    expired: await sign(folder, "expired", ca, ["-days", "-1"]),
  };
}

async function makeAuthority(folder: string, name: string) {
  const [cert, key] = [join(folder, `${name}.pem`), join(folder, `${name}.key`)];
  const newKey = ["-newkey", "rsa:2048", "-nodes", "-keyout", key];
  await openssl("req", "-x509", ...newKey, "-out", cert, "-days", "2", "-subj", `/CN=${name}`);
  return { cert, key };
}

async function sign(
  folder: string,
  name: string,
  ca: { readonly cert: string; readonly key: string },
  validity: readonly string[] = ["-days", "2"],
) {
  const [cert, key, request] = ["pem", "key", "csr"].map((end) => join(folder, `${name}.${end}`)) as [
    string,
    string,
    string,
  ];
  const extensions = join(folder, `${name}.ext`);
  await writeFile(extensions, "subjectAltName=IP:127.0.0.1,DNS:localhost\n");
  await openssl(
    "req",
    "-newkey",
    "rsa:2048",
    "-nodes",
    "-keyout",
    key,
    "-out",
    request,
    "-subj",
    `/CN=${name}`,
  );
  const authority = ["-CA", ca.cert, "-CAkey", ca.key, "-CAcreateserial", "-extfile", extensions];
  await openssl("x509", "-req", "-in", request, ...authority, "-out", cert, ...validity);
  return { cert, key };
}

async function openssl(...options: string[]): Promise<void> {
  await run("openssl", options);
}
