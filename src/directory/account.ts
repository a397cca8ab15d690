import { z } from "zod";
import { isSafeAddress } from "../core/http/plain-http.ts";
import { durationSchema, sizeSchema } from "../core/schema.ts";
import { type Secret, secretSchema } from "../core/secret.ts";

interface Addresses {
  readonly insightsUrl: string;
  readonly managementUrl: string;
  readonly tokenUrl: string;
}

export const REGIONS: Readonly<Record<"us" | "eu" | "in", Addresses>> = {
  us: addressesOf(""),
  eu: addressesOf(".eu"),
  in: addressesOf(".in"),
};

function addressesOf(infix: string): Addresses {
  return {
    insightsUrl: `https://api${infix}.jumpcloud.com`,
    managementUrl: `https://console${infix}.jumpcloud.com/api`,
    tokenUrl: `https://admin-oauth.id${infix}.jumpcloud.com/oauth2/token`,
  };
}

const addressSchema = (description: string) =>
  z
    .url({ protocol: /^https?$/, error: "write an address such as https://host or https://host/api" })
    .refine((text) => !URL.canParse(text) || plainAddress(new URL(text)), {
      error: "an address has no user, password, query or fragment",
    })
    .transform((text) => text.replace(/\/+$/, ""))
    .optional()
    .meta({ description });

function plainAddress(url: URL): boolean {
  return url.username === "" && url.password === "" && url.search === "" && url.hash === "";
}

const BODY_MAX = "The largest page that is taken, uncompressed; above it smaller pages are asked for.";

function timeout(description: string, defaultMs = 60_000) {
  return durationSchema(description, { minMs: 10, maxMs: 3_600_000 })
    .default(defaultMs)
    .meta({ description });
}

/**
 * The connection's part of an account in the config file; the whole account is assembled around it:
 * `z.strictObject({ ...accountConnection, … }).superRefine(checkConnection)`.
 */
export const accountConnection = {
  name: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/, {
      error: "up to 64 letters, digits, dots, dashes and underscores",
    })
    .meta({ description: "The account's name here: in paths, logs and metrics." }),
  region: z
    .enum(["us", "eu", "in"])
    .optional()
    .meta({ description: "The service's region; it sets the three addresses." }),
  insightsUrl: addressSchema("The address of the Insights API, instead of the region's."),
  managementUrl: addressSchema(
    "The address of the management API, its /api included, instead of the region's.",
  ),
  tokenUrl: addressSchema("Where OAuth tokens are issued, instead of the region's."),
  apiKey: secretSchema("The administrator's API key.")
    .optional()
    .meta({ description: "The administrator's API key." }),
  oauth: z
    .strictObject({
      clientId: z.string().min(1).meta({ description: "The service account's client id." }),
      clientSecret: secretSchema("The service account's client secret."),
    })
    .optional()
    .meta({ description: "An OAuth service account, instead of an API key." }),
  ca: z
    .string()
    .min(1)
    .optional()
    .meta({ description: "A PEM file with the authorities to trust, instead of the system's." }),
  plainHttp: z.boolean().default(false).meta({
    description: "Allow http:// addresses beyond this machine. The key then travels in the clear.",
  }),
  headersTimeout: timeout("How long an answer may take to begin."),
  bodyTimeout: timeout(
    "How long an answer may pause once it has begun. It may also take so long in all, and a second for each 16 kB.",
    20_000,
  ),
  bodyMax: sizeSchema(BODY_MAX, { min: 1024, max: 2 ** 30 })
    .default(32 * 2 ** 20)
    .meta({ description: BODY_MAX }),
};

/** The parsed connection part of an account. */
export type AccountConnection = z.output<z.ZodObject<typeof accountConnection>>;

/** Checks that concern several fields. */
export function checkConnection(
  account: Partial<AccountConnection>,
  context: z.core.$RefinementCtx<unknown>,
): void {
  const complain = (path: string, message: string) =>
    context.addIssue({ code: "custom", path: [path], message, input: account[path as keyof typeof account] });
  if (!account.region && !(account.insightsUrl && account.managementUrl)) {
    complain("region", "set region to us, eu or in, or give both insightsUrl and managementUrl");
  }
  if (!account.apiKey === !account.oauth) complain("apiKey", "give either apiKey or oauth");
  if (account.oauth && !account.region && !account.tokenUrl) {
    complain("tokenUrl", "oauth needs a region or a tokenUrl");
  }
  for (const path of ["insightsUrl", "managementUrl", "tokenUrl"] as const) {
    if (account[path] && !account.plainHttp && !isSafeAddress(account[path])) {
      complain(path, "use https, or set plainHttp: true to send the key in the clear");
    }
  }
}

export type Credentials =
  | { readonly apiKey: Secret }
  | { readonly clientId: string; readonly clientSecret: Secret; readonly tokenUrl: string };

/** An account's connection with its addresses and credentials settled: what the clients are made from. */
export interface ServiceConnection {
  readonly name: string;
  readonly insightsUrl: string;
  readonly managementUrl: string;
  readonly credentials: Credentials;
  readonly ca?: string | undefined;
  readonly headersTimeoutMs: number;
  readonly bodyTimeoutMs: number;
  readonly bodyBytesMax: number;
}

export function connectionOf(account: AccountConnection): ServiceConnection {
  const preset = account.region ? REGIONS[account.region] : undefined;
  return {
    name: account.name,
    insightsUrl: account.insightsUrl ?? preset?.insightsUrl ?? missing(account, "insightsUrl"),
    managementUrl: account.managementUrl ?? preset?.managementUrl ?? missing(account, "managementUrl"),
    credentials: credentialsOf(account, account.tokenUrl ?? preset?.tokenUrl),
    ca: account.ca,
    headersTimeoutMs: account.headersTimeout,
    bodyTimeoutMs: account.bodyTimeout,
    bodyBytesMax: account.bodyMax,
  };
}

function credentialsOf(account: AccountConnection, tokenUrl: string | undefined): Credentials {
  if (account.apiKey) return { apiKey: account.apiKey };
  if (!account.oauth) return missing(account, "apiKey");
  return { ...account.oauth, tokenUrl: tokenUrl ?? missing(account, "tokenUrl") };
}

function missing(account: AccountConnection, field: string): never {
  throw new Error(`The account ${account.name} has no ${field}.`);
}
