import { associationChange } from "./association-events.ts";
import { adminChanges, changesOf, userChanges } from "./changes.ts";
import {
  adminResource,
  authMethods,
  contextSystem,
  type Draft,
  draft,
  initiatedBy,
  placeOf,
  protectDevice,
  quote,
  type Scene,
  userResource,
  type Writer,
} from "./scene.ts";

const secondFactors = ["totp", "webauthn", "duo", "jumpcloud_protect"] as const;
const asn = `"asn":{"number":64496,"organization":"example telecom"}`;

/** A person at the user portal. `username` is there beside the initiator's e-mail address. */
export const userLogin: Writer = (scene) => {
  const { random, user } = scene;
  const isPasswordRight = !random.chance(0.05);
  const factor = random.chance(0.75) ? random.pick(secondFactors) : null;
  const isFactorRight = !random.chance(0.04);
  const success = isPasswordRight && (factor === null || isFactorRight);
  const methods = authMethods({
    password: isPasswordRight,
    ...(factor === null || !isPasswordRight ? {} : { [factor]: isFactorRight }),
  });
  const system = random.chance(0.3) ? `,"system":${contextSystem(scene.device)}` : "";
  const phone = factor === "jumpcloud_protect" ? `,"jumpcloud_protect_device":${protectDevice(user)}` : "";
  const failure = success ? "" : `,"error_message":"invalid credentials"`;
  const type = factor === "jumpcloud_protect" ? "push" : (factor ?? "none");
  return draft(
    scene,
    "directory",
    "user_login_attempt",
    `"username":${quote(user.username)},"initiated_by":{"type":"user","id":"${user.id}","email":${quote(user.email)}},"resource":${userResource(user)},${placeOf(user)},"auth_method":"session","success":${success},"mfa":${factor !== null && success},"mfa_meta":{"type":"${type}"},"auth_context":{"auth_methods":${methods}${system}${phone},"policies_applied":[{"name":"require mfa","id":"${scene.thread.slice(0, 8)}"}]},${asn},"provider":null${failure}`,
  );
};

export const adminLogin: Writer = (scene) => {
  const { random, administrator } = scene;
  const success = !random.chance(0.04);
  const withFactor = !random.chance(0.1);
  const methods = authMethods({ password: success, ...(withFactor ? { totp: success } : {}) });
  return draft(
    scene,
    "directory",
    "admin_login_attempt",
    `"username":${quote(administrator.username)},"initiated_by":${initiatedBy(administrator, "admin")},"resource":${adminResource(administrator)},${placeOf(administrator)},"auth_method":"session","success":${success},"mfa":${withFactor},"mfa_meta":{"type":"${withFactor ? "totp" : "none"}"},"auth_context":{"auth_methods":${methods}},${asn},"provider":""`,
  );
};

const plainTypes = [
  "user_create",
  "group_update",
  "command_run",
  "user_password_change",
  "user_suspended",
  "user_unsuspended",
  "user_locked_out",
  "group_warning",
];
const updatedThings = ["policy", "authnpolicy", "organization", "system", "application"] as const;

/** Changes by administrators: bindings, updates, and the rest. */
export const adminChange: Writer = (scene) => {
  const { random } = scene;
  const which = random.below(20);
  if (which < 6) return associationChange(scene);
  if (which < 13) return userUpdate(scene);
  if (which < 15) return adminUpdate(scene);
  if (which < 17) return thingUpdate(scene);
  if (which < 18) return background(scene);
  return change(scene, random.pick(plainTypes), userResource(scene.user), userChanges(scene));
};

export const selfChange: Writer = (scene) => {
  const { random, user } = scene;
  const type = random.chance(0.5) ? "user_password_change" : "systemuser_update";
  return draft(
    scene,
    "directory",
    type,
    `"initiated_by":${initiatedBy(user, "user")},"resource":${userResource(user)},"changes":${userChanges(scene)},${placeOf(user)},"auth_method":"session","success":true,"mfa":true`,
  );
};

function userUpdate(scene: Scene): Draft {
  const type = scene.random.pick([
    "systemuser_update",
    "systemuser_update",
    "user_update",
    "user_mfa_update",
  ]);
  return change(scene, type, userResource(scene.user), userChanges(scene));
}

function adminUpdate(scene: Scene): Draft {
  return change(scene, "admin_update", adminResource(scene.administrator), adminChanges(scene));
}

function thingUpdate(scene: Scene): Draft {
  const thing = scene.random.pick(updatedThings);
  const name = thing === "organization" ? "" : `,"name":"require mfa"`;
  return change(
    scene,
    `${thing}_update`,
    `{"type":"${thing}","id":"${scene.random.hex24()}"${name}}`,
    changesOf(scene, thing),
  );
}

function change(scene: Scene, type: string, resource: string, changes: string): Draft {
  const { random, administrator } = scene;
  const method = random.chance(0.2) ? "api-key" : random.chance(0.1) ? "api key" : "session";
  return draft(
    scene,
    "directory",
    type,
    `"initiated_by":${initiatedBy(administrator, "admin")},"resource":${resource},"changes":${changes},${placeOf(administrator)},"auth_method":"${method}","success":true,"mfa":${random.chance(0.8)}`,
  );
}

/** Work of the service itself: e-mails, schedules, provisioning, groups of systems. */
export const background: Writer = (scene) => {
  const { random, user, administrator, app, device, tenant } = scene;
  const source = `{"type":"integration","id":"${app.id}","user_id":"${user.id}","source":"scim","source_metadata":{"name":"people directory"}}`;
  const kinds: readonly (() => Draft)[] = [
    () =>
      draft(
        scene,
        "directory",
        "user_email_sent",
        `"correlation":{"id":"${scene.thread}","type":"user_invitation"},"initiated_by":${initiatedBy(administrator, "admin")},"resource":{"type":"user","id":"${user.id}","username":${quote(user.username)},"recipient_email":${quote(user.email)},"email_type":"activation","name":${quote(user.username)}},"success":true`,
      ),
    () =>
      draft(
        scene,
        "directory",
        "system_group_update",
        `"initiated_by":${initiatedBy(administrator, "admin")},"system_group":{"type":"system_group","object_id":"${tenant.groups[0]!.id}","name":"laptops"},"system":{"hostname":"${device.hostname}","displayName":"${device.displayName}","id":"${device.id}","type":"${device.os}"},"target_resource":{"type":"system_group"},"success":true`,
      ),
    () =>
      draft(
        scene,
        "directory",
        "user_provision",
        `"initiated_by":${source},"resource":${userResource(user)},"association":{"type":"application","id":"${app.id}","email":${quote(user.email)}},"application":{"id":"${app.id}","name":"${app.name}"},"idm_client_id":"${app.id}","success":false,"error_message":"the endpoint refused the user","message_chain":{"response_code":409,"response_message":"conflict","message_details":"the user name is taken"},"target_resource":{"type":"user"}`,
      ),
  ];
  return random.pick(kinds)();
};

const portalTypes = [
  "admin_login_attempt",
  "admin_password_reset_request",
  "admin_lockout",
  "admin_update",
  "admin_create",
  "admin_unsuspend",
  "admin_suspended",
  "admin_password_change",
  "organization_create",
  "organization_update",
  "provider_update",
];

/** The multi-tenant portal's own events: they belong to the provider, and their organization is null. */
export const portal: Writer = (scene) => {
  const { random, administrator } = scene;
  const type = scene.step === 0 ? "admin_login_attempt" : random.pick(portalTypes);
  const by = `{"type":"admin","id":"${administrator.id}","provider":"${scene.providerId}","email":${quote(administrator.email)}}`;
  const changes = type === "admin_login_attempt" ? "[]" : adminChanges(scene);
  return {
    service: "directory",
    before: `{"service":"directory","event_type":"${type}","client_ip":"${administrator.place.ip}","resource":${adminResource(administrator)},"changes":${changes},"provider":"${scene.providerId}","id":"${random.hex24()}","timestamp":"`,
    after: `","useragent":${administrator.place.userAgent},"geoip":${administrator.place.geoip},"@version":1,"initiated_by":${by},"auth_method":"session","organization":null,"mfa":true`,
  };
};
