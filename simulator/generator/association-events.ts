import { draft, initiatedBy, placeOf, quote, type Scene, type Writer } from "./scene.ts";

interface End {
  readonly type: string;
  readonly id: string;
  readonly name: string;
}

/** A binding: from, to, and its attributes (null is written as null). */
type Binding = (scene: Scene) => { from: End; to: End; attributes?: string };

const bindings: readonly (readonly [weight: number, binding: Binding])[] = [
  [50, (scene) => ({ from: group(scene), to: user(scene) })],
  [10, (scene) => ({ from: systemGroup(scene), to: device(scene) })],
  [
    15,
    (scene) => {
      const sudo = scene.random.chance(0.5);
      const attributes = `{"sudo":{"enabled":${sudo},"withoutPassword":${sudo && scene.random.chance(0.4)}}}`;
      return { from: user(scene), to: device(scene), attributes };
    },
  ],
  [20, (scene) => ({ from: group(scene), to: resource(scene) })],
  [
    5,
    (scene) => ({
      from: { type: scene.random.pick(["policy", "command"]), id: scene.random.hex24(), name: "filevault" },
      to: scene.random.chance(0.5) ? systemGroup(scene) : device(scene),
      attributes: "null",
    }),
  ],
];

/** Memberships and bindings. A few carry the older form, which names one end only. */
export const associationChange: Writer = (scene) => write(scene, "directory", "association_change");

export const accessAssociation: Writer = (scene) =>
  write(scene, "access_management", "access_management_association_change");

function write(scene: Scene, service: "directory" | "access_management", type: string) {
  const { random, administrator } = scene;
  const agent = service === "directory" ? placeOf(administrator) : accessPlace(scene);
  return draft(
    scene,
    service,
    type,
    `"initiated_by":${initiatedBy(administrator, "admin")},"association":${association(scene)},${agent},"auth_method":"${random.chance(0.2) ? "api-key" : "session"}","success":true,"provider":null`,
  );
}

function association(scene: Scene): string {
  const { random, user: person } = scene;
  if (random.chance(0.05)) {
    return `{"type":"user","id":"${person.id}","email":${quote(person.email)},"op":"add"}`;
  }
  const { from, to, attributes } = pick(scene)(scene);
  const mayUpdate = attributes !== undefined && attributes !== "null";
  const op = mayUpdate && random.chance(0.3) ? "update" : random.chance(0.6) ? "add" : "remove";
  const source = random.pick(["user_action", "user_action", "rule", "import"]);
  const more = attributes === undefined ? "" : `,"attributes":${attributes}`;
  return `{"op":"${op}","action_source":"${source}","connection":{"from":${end(scene, from)},"to":${end(scene, to)}}${more}}`;
}

function end({ random }: Scene, { type, id, name }: End): string {
  const shown = random.chance(0.05) ? type.toUpperCase() : type;
  return `{"type":"${shown}","object_id":"${id}"${random.chance(0.1) ? "" : `,"name":${quote(name)}`}}`;
}

function pick({ random }: Scene): Binding {
  let rest = random.below(100);
  for (const [weight, binding] of bindings) {
    rest -= weight;
    if (rest < 0) return binding;
  }
  return bindings[0]![1];
}

function group({ random, tenant }: Scene): End {
  return { type: "user_group", ...random.pick(tenant.groups) };
}

function systemGroup({ tenant }: Scene): End {
  return { type: "system_group", id: tenant.groups[0]!.id, name: "laptops" };
}

function user({ user: { id, username } }: Scene): End {
  return { type: "user", id, name: username };
}

function device({ device: { id, hostname } }: Scene): End {
  return { type: "system", id, name: hostname };
}

const others = ["radius_server", "ldap_server", "system_group", "g_suite", "office_365", "active_directory"];

function resource({ random, app }: Scene): End {
  if (random.chance(0.5)) return { type: "application", id: app.id, name: app.displayLabel.toLowerCase() };
  const type = random.pick(others);
  return { type, id: random.hex24(), name: type.replaceAll("_", " ") };
}

function accessPlace({ administrator: { place } }: Scene): string {
  return `"client_ip":"${place.ip}","user_agent":${place.userAgent},"geoip":${place.geoip}`;
}
