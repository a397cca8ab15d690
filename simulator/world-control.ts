import { generateKeyPairSync } from "node:crypto";
import type { Parts } from "./management/router.ts";
import { listApplications } from "./world/applications.ts";
import type { Job, JobUser } from "./world/import-jobs.ts";
import { importTemplate } from "./world/templates.ts";
import type { User } from "./world/user.ts";
import { workdayId } from "./world/world.ts";

/** An administrator's work in the console, and the truth about users, jobs and systems. */
export interface WorldControl {
  users(organization: string): readonly User[];
  groups(organization: string): readonly { readonly id: string; readonly name: string }[];
  /** The integration that imports users, and the Workday integration, which every organization has. */
  importApplication(organization: string): string;
  workday(organization: string): string;
  suspendUser(organization: string, user: string): User;
  unsuspendUser(organization: string, user: string): User;
  deleteUser(organization: string, user: string): void;
  setGroupMember(organization: string, group: string, user: string, member: boolean): void;
  importJobs(): readonly Job[];
  /** User by user, what the job has done so far. */
  importJobUsers(job: string): readonly JobUser[];
  /** Enrolls a system with a fresh RSA key pair, or with the public key that is given. */
  addSystem(
    organization: string,
    system?: SystemOption,
  ): { id: string; systemGroup: string; privateKey: string | null };
  /** Resolves when outbound provisioning has nothing left to do. */
  provisioned(): Promise<void>;
}

export interface SystemOption {
  readonly os?: string;
  /** "agent" may sign requests; "ade" and "portal" may not. */
  readonly enrollment?: "agent" | "ade" | "portal";
  /** PEM. */
  readonly publicKey?: string;
}

const console = { type: "admin", source: "console" };

export function createWorldControl(parts: Parts): WorldControl {
  const { world, users, imports, provisioning } = parts;
  const { db } = world;

  /** Control may be the first to look at an organization. */
  function organizationId(id: string): string {
    const tenant = world.tenant(id.toLowerCase());
    world.fill(tenant);
    return tenant.id;
  }
  const user = (organization: string, id: string) => users.find(organizationId(organization), id);

  return {
    users: (organization) => users.list(organizationId(organization)),
    groups: (organization) =>
      db
        .prepare<[string], { id: string; name: string }>(
          "SELECT id, name FROM user_groups WHERE organization = ? ORDER BY name",
        )
        .all(organizationId(organization)),
    importApplication: (organization) =>
      listApplications(db, organizationId(organization)).find(({ name }) => name === importTemplate)!._id,
    workday: (organization) => workdayId(organizationId(organization)),
    suspendUser: (organization, id) => users.suspend(user(organization, id), console),
    unsuspendUser: (organization, id) => users.unsuspend(user(organization, id), console),
    deleteUser: (organization, id) => users.remove(user(organization, id), console),
    setGroupMember(organization, group, id, member) {
      const found = user(organization, id);
      const statement = member
        ? "INSERT OR IGNORE INTO user_group_members VALUES (?, ?)"
        : "DELETE FROM user_group_members WHERE group_id = ? AND user_id = ?";
      db.prepare(statement).run(group, found.id);
      provisioning.userChanged(found.id);
    },
    importJobs: imports.list,
    importJobUsers: imports.users,
    addSystem(organization, option = {}) {
      const owner = organizationId(organization);
      const id = world.newId();
      const pair =
        option.publicKey === undefined ? createKeyPair() : { publicKey: option.publicKey, privateKey: null };
      const document = {
        _id: id,
        organization: owner,
        hostname: `system-${id.slice(-6)}`,
        displayName: `system-${id.slice(-6)}`,
        os: option.os ?? "linux",
        active: true,
      };
      db.prepare("INSERT INTO systems VALUES (?, ?, ?, ?, ?, ?)").run(
        id,
        owner,
        document.os,
        option.enrollment ?? "agent",
        pair.publicKey,
        JSON.stringify(document),
      );
      const group = db
        .prepare<[string], { id: string }>("SELECT id FROM system_groups WHERE organization = ?")
        .get(owner)!;
      return { id, systemGroup: group.id, privateKey: pair.privateKey };
    },
    provisioned: provisioning.idle,
  };
}

function createKeyPair(): { publicKey: string; privateKey: string } {
  return generateKeyPairSync("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  });
}
