import { createPrivateKey, type KeyObject, sign } from "node:crypto";

/** The key and the name with which a system signs its requests. */
export interface SystemIdentity {
  readonly systemKey: string;
  readonly privateKey: KeyObject;
}

/**
 * The headers of a system-context request: RSA-SHA256 over the request line and the date. Method, path
 * (with the query) and date sent must be those signed here.
 */
export function signedHeaders(
  identity: SystemIdentity,
  method: string,
  path: string,
  nowMs: number,
): readonly string[] {
  const date = new Date(nowMs).toUTCString();
  const signature = sign("RSA-SHA256", Buffer.from(signedText(method, path, date)), identity.privateKey);
  const parameters = [
    `keyId="system/${identity.systemKey}"`,
    `headers="request-line date"`,
    `algorithm="rsa-sha256"`,
    `signature="${signature.toString("base64")}"`,
  ];
  return ["date", date, "authorization", `Signature ${parameters.join(",")}`];
}

function signedText(method: string, path: string, date: string): string {
  return `${method} ${path} HTTP/1.1\ndate: ${date}`;
}

/** The identity from the agent's own files: its JSON configuration (systemKey) and its private key in PEM. */
export function systemIdentityOf(configText: string, keyText: string): SystemIdentity {
  const systemKey = systemKeyOf(configText);
  let privateKey: KeyObject;
  try {
    privateKey = createPrivateKey(keyText);
  } catch {
    // The cause is left out: it could quote the key.
    throw new Error("The agent's key file holds no private key in PEM form.");
  }
  if (privateKey.asymmetricKeyType !== "rsa") {
    throw new Error(`The agent's private key is ${privateKey.asymmetricKeyType}; signing needs RSA.`);
  }
  return { systemKey, privateKey };
}

function systemKeyOf(configText: string): string {
  let config: unknown;
  try {
    config = JSON.parse(configText);
  } catch (cause) {
    throw new Error("The agent's configuration file is not JSON.", { cause });
  }
  const systemKey = (config as { systemKey?: unknown } | null)?.systemKey;
  if (typeof systemKey !== "string" || !/^[A-Za-z0-9_-]{1,100}$/.test(systemKey)) {
    throw new Error("The agent's configuration file has no usable systemKey.");
  }
  return systemKey;
}
