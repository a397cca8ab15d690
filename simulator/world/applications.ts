import { Problem } from "../http/problem.ts";
import type { Db } from "./database.ts";
import { importTemplate, templates } from "./templates.ts";

export interface Application {
  readonly _id: string;
  readonly organization: string;
  readonly name: string;
  readonly displayLabel: string;
  readonly displayName: string;
  readonly ssoUrl: string;
  readonly active: boolean;
  readonly config: Readonly<Record<string, unknown>>;
  readonly [field: string]: unknown;
}

/** Certificates of the identity provider are valid for five years. */
const certificateMs = 5 * 365 * 86_400_000;

/** An application with every field at its default. */
export function defaultApplication(
  id: string,
  organization: string,
  name: string,
  nowMs: number,
): Application {
  const template = templates.find((candidate) => candidate.name === name);
  if (template === undefined)
    throw new Problem(400, `There is no application template named ${JSON.stringify(name)}`);
  return {
    _id: id,
    organization,
    name,
    displayLabel: template.displayName,
    displayName: template.displayName,
    description: "",
    ssoUrl: `${name}-${id.slice(-6)}`,
    active: true,
    beta: false,
    color: "",
    config: template.config,
    created: new Date(nowMs).toISOString(),
    databaseAttributes: [],
    learnMore: "",
    logo: { color: "", url: "" },
    sso: {
      type: name === importTemplate ? "custom" : "saml",
      beta: false,
      jit: false,
      idpCertExpirationAt: name === importTemplate ? null : new Date(nowMs + certificateMs).toISOString(),
      hidden: false,
    },
    parentApp: "",
    referenceApplications: [],
    aiReady: false,
  };
}

export function findApplication(db: Db, organization: string, id: string): Application {
  const row = db
    .prepare<[string, string], { document: string }>(
      "SELECT document FROM applications WHERE id = ? AND organization = ?",
    )
    .get(id, organization);
  if (row === undefined) throw new Problem(404, "Application not found");
  return JSON.parse(row.document) as Application;
}

export function listApplications(db: Db, organization: string): Application[] {
  const rows = db
    .prepare<[string], { document: string }>("SELECT document FROM applications WHERE organization = ?")
    .all(organization);
  return rows.map((row) => JSON.parse(row.document) as Application);
}

export function saveApplication(db: Db, application: Application): void {
  db.prepare("INSERT OR REPLACE INTO applications VALUES (?, ?, ?)").run(
    application._id,
    application.organization,
    JSON.stringify(application),
  );
}

export interface Outbound {
  readonly url: string;
  readonly token: string;
}

/** Where the application's users are provisioned to, or null when outbound SCIM is off. */
export function outboundOf(application: Application): Outbound | null {
  const value = (name: string) => (application.config[name] as { value?: unknown } | undefined)?.value;
  const url = value("scimUrl");
  if (!application.active || value("scimEnabled") === false || typeof url !== "string" || url === "")
    return null;
  return { url: url.replace(/\/$/, ""), token: String(value("scimToken") ?? "") };
}
