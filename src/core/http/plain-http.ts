import { z } from "zod";
import { Secret } from "../secret.ts";

export const plainHttpSchema = z.boolean().default(false).meta({
  description:
    "Allows http:// addresses beyond this machine although secrets are sent there. They then cross the network in the clear.",
});

/** True for https, and for http to this machine. */
export function isSafeAddress(address: string): boolean {
  if (!URL.canParse(address)) return true;
  const { protocol, hostname } = new URL(address);
  return protocol === "https:" || /^(localhost|127(\.\d+){3}|\[::1\]|.*\.localhost)$/.test(hostname);
}

/**
 * The paths of addresses in a parsed config to which secrets would go in the clear; none where the config has
 * no secret or says `plainHttp: true`.
 */
export function unsafeAddresses(config: unknown): readonly (readonly string[])[] {
  const found: string[][] = [];
  let hasSecret = false;
  const visit = (value: unknown, path: string[]): void => {
    if (value instanceof Secret) hasSecret = true;
    else if (typeof value === "string") {
      if (/^http:/i.test(value) && !isSafeAddress(value)) found.push(path);
    } else if (typeof value === "object" && value !== null) {
      if ((value as { plainHttp?: unknown }).plainHttp === true) return;
      for (const [name, inner] of Object.entries(value)) visit(inner, [...path, name]);
    }
  };
  visit(config, []);
  return hasSecret ? found : [];
}
