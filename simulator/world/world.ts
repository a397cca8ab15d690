import type { SimulatorClock } from "../clock.ts";
import type { Events } from "../events.ts";
import type { Directory, Tenant } from "../generator/directory.ts";
import { Problem } from "../http/problem.ts";
import type { Settings } from "../options.ts";
import { createRandom } from "../random.ts";
import { defaultApplication } from "./applications.ts";
import type { Db } from "./database.ts";
import { importTemplate } from "./templates.ts";

/** The state behind both APIs: tables, the clock, and the events that changes leave behind. */
export interface World {
  readonly db: Db;
  readonly clock: SimulatorClock;
  readonly settings: Settings;
  readonly directory: Directory;
  newId(): string;
  tenant(organization: string): Tenant;
  /** Fills an organization's tables on first use, with the people and things its events speak of. */
  fill(tenant: Tenant): void;
  /** Makes an event of service `directory` visible after the indexing delay. */
  tell(organization: string, event: ChangeEvent): void;
}

export interface ChangeEvent {
  readonly event_type: string;
  readonly initiated_by: Readonly<Record<string, unknown>>;
  readonly resource?: Readonly<Record<string, unknown>>;
  readonly success?: boolean;
  readonly [field: string]: unknown;
}

export function createWorld(parts: {
  db: Db;
  clock: SimulatorClock;
  settings: Settings;
  directory: Directory;
  events: Events;
  /** How often this world was opened before; ids of another run are other ids. */
  run: number;
}): World {
  const { db, clock, settings, directory, events } = parts;
  const random = createRandom(settings.seed, 9, parts.run);
  const filled = new Set<string>();
  const tenants = new Map(directory.tenants.map((tenant) => [tenant.id, tenant]));

  function tenant(organization: string): Tenant {
    const found = tenants.get(organization);
    if (found === undefined) throw new Problem(404, "Organization ID not found");
    return found;
  }

  return {
    db,
    clock,
    settings,
    directory,
    newId: random.hex24,
    tenant,
    fill(one) {
      if (filled.has(one.id)) return;
      fillTenant(db, settings.seed, one, clock.now());
      filled.add(one.id);
    },
    tell(organization, event) {
      const text = JSON.stringify({
        id: random.hex24(),
        service: "directory",
        timestamp: new Date(clock.now()).toISOString(),
        organization,
        "@version": 1,
        success: true,
        ...lowered(event),
      });
      events.append(text, tenant(organization).number, settings.imports.indexingDelayMs);
    },
  };
}

/** Values are stored in lower case; only `changes` keeps what was given. */
function lowered(event: ChangeEvent): Readonly<Record<string, unknown>> {
  const { changes, ...rest } = event;
  const text = JSON.stringify(rest, (_, value: unknown) =>
    typeof value === "string" ? value.toLowerCase() : value,
  );
  return { ...(JSON.parse(text) as Record<string, unknown>), ...(changes === undefined ? {} : { changes }) };
}

function fillTenant(db: Db, seed: number, tenant: Tenant, nowMs: number): void {
  const claim = db.prepare("INSERT OR IGNORE INTO filled VALUES (?)");
  db.transaction(() => {
    if (claim.run(tenant.id).changes === 0) return;
    fillPeople(db, tenant);
    fillSystems(db, tenant);
    fillApplications(db, seed, tenant, nowMs);
  })();
}

function fillPeople(db: Db, tenant: Tenant): void {
  const user = db.prepare(
    "INSERT INTO users (id, organization, username, email, firstname, lastname, state, source) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
  );
  const group = db.prepare("INSERT INTO user_groups VALUES (?, ?, ?)");
  const member = db.prepare("INSERT INTO user_group_members VALUES (?, ?)");
  for (const { id, name } of tenant.groups) group.run(id, tenant.id, name);
  for (const [index, person] of tenant.users.entries()) {
    const { id, username, email, firstname, lastname } = person;
    user.run(id, tenant.id, username, email, firstname, lastname, "ACTIVATED", "console");
    for (const [position, entry] of tenant.groups.entries())
      if (index % (position * 2 + 1) === 0) member.run(entry.id, id);
  }
}

function fillSystems(db: Db, tenant: Tenant): void {
  const system = db.prepare("INSERT INTO systems VALUES (?, ?, ?, ?, NULL, ?)");
  for (const { id, hostname, displayName, os } of tenant.systems) {
    const document = { _id: id, organization: tenant.id, hostname, displayName, os, active: true };
    system.run(id, tenant.id, os, "agent", JSON.stringify(document));
  }
  const group = createRandom(seedOf(tenant), 5).hex24();
  db.prepare("INSERT INTO system_groups VALUES (?, ?, ?)").run(group, tenant.id, "all systems");
  const member = db.prepare("INSERT INTO system_group_members VALUES (?, ?)");
  for (const { id } of tenant.systems) member.run(group, id);
}

/** The SAML applications that sso events name, and one integration that imports users. */
function fillApplications(db: Db, seed: number, tenant: Tenant, nowMs: number): void {
  const application = db.prepare("INSERT INTO applications VALUES (?, ?, ?)");
  for (const { id, name, displayLabel, ssoUrl } of tenant.applications) {
    const slug = ssoUrl.slice(ssoUrl.lastIndexOf("/") + 1);
    const document = {
      ...defaultApplication(id, tenant.id, name, nowMs),
      displayLabel,
      displayName: displayLabel,
      ssoUrl: slug,
    };
    application.run(id, tenant.id, JSON.stringify(document));
  }
  const id = createRandom(seed, seedOf(tenant), 6).hex24();
  const document = {
    ...defaultApplication(id, tenant.id, importTemplate, nowMs),
    displayLabel: "HR import",
    displayName: "HR import",
  };
  application.run(id, tenant.id, JSON.stringify(document));
}

function seedOf(tenant: Tenant): number {
  return Number.parseInt(tenant.id.slice(0, 12), 16);
}

/** Every organization has one Workday integration; its id follows from the organization's. */
export function workdayId(organization: string): string {
  return createRandom(Number.parseInt(organization.slice(0, 12), 16), 7).hex24();
}
