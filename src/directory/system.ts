import { readFile } from "node:fs/promises";
import { z } from "zod";
import { UsageError } from "../core/errors.ts";
import { type SystemIdentity, systemIdentityOf } from "./signature.ts";

/** Where the agent of a system keeps what its requests are signed with. */
export const systemSchema = z
  .strictObject({
    agentConfig: z
      .string()
      .min(1)
      .default("/opt/jc/jcagent.conf")
      .meta({ description: "The agent's JSON configuration file, which holds the system's key name." }),
    agentKey: z
      .string()
      .min(1)
      .default("/opt/jc/client.key")
      .meta({ description: "The agent's private key in PEM form." }),
  })
  .prefault({})
  .meta({ description: "For `tidemark system`, on a Linux system that speaks for itself." });

export type SystemSettings = z.output<typeof systemSchema>;

/** Reads the agent's files; every refusal says what to do. */
export async function loadSystemIdentity(
  settings: SystemSettings,
  platform: string,
): Promise<SystemIdentity> {
  if (platform !== "linux") {
    throw new UsageError(
      `Signed requests work on Linux systems alone; this is ${platform}. Use an administrator's key instead.`,
    );
  }
  const configText = await readAgentFile(settings.agentConfig, "configuration");
  const keyText = await readAgentFile(settings.agentKey, "private key");
  try {
    return systemIdentityOf(configText, keyText);
  } catch (error) {
    throw new UsageError((error as Error).message, { cause: error });
  }
}

async function readAgentFile(path: string, what: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === "EACCES" || code === "EPERM") {
      throw new UsageError(
        `The agent's ${what} ${path} may not be read: signing needs root or equivalent access, so run this with sudo.`,
      );
    }
    throw new UsageError(
      `The agent's ${what} ${path} cannot be read (${code}): is the agent installed, and is its folder set right in the config?`,
    );
  }
}

/** Explains a refused signed request in words that a person can act on. */
export const SYSTEM_REFUSED =
  "The service refuses this system's signature. Systems that were enrolled through automatic device enrollment or the user portal are not eligible; else check that the clock is right and that the agent's key belongs to this system.";
