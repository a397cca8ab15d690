import { draft, initiatedBy, placeOf, quote, type Scene, type Writer } from "./scene.ts";
import { userFields } from "./words.ts";

const mfaTypes = ["totp", "webauthn", "duo", "push"];

export const userLogin: Writer = (scene) => {
  const { random, user } = scene;
  const success = !random.chance(0.06);
  const failure = success ? "" : `,"error_message":"invalid credentials"`;
  return draft(
    scene,
    "directory",
    "user_login_attempt",
    `"initiated_by":${initiatedBy(user, "user")},"resource":{"type":"user","id":"${user.id}","username":${quote(user.username)}},${placeOf(user)},"auth_method":"session","success":${success},"mfa":${random.chance(0.7)},"mfa_meta":{"type":"${random.pick(mfaTypes)}"},"auth_context":{"auth_methods":{"password":{"success":${success}},"totp":{"success":${success}}},"system":{"hostname":"${scene.device.hostname}","id":"${scene.device.id}","displayName":"${scene.device.displayName}","os":"${scene.device.os}","version":"14.5"},"policies_applied":[{"name":"require mfa","id":"${scene.thread.slice(0, 24)}"}]},"provider":null${failure}`,
  );
};

export const adminLogin: Writer = (scene) => {
  const { random, administrator } = scene;
  return draft(
    scene,
    "directory",
    "admin_login_attempt",
    `"initiated_by":${initiatedBy(administrator, "admin")},"resource":{"type":"admin","id":"${administrator.id}","email":${quote(administrator.email)}},${placeOf(administrator)},"auth_method":"session","success":${!random.chance(0.04)},"mfa":true,"mfa_meta":{"type":"totp"},"provider":""`,
  );
};

const changedTypes = [
  "systemuser_update",
  "systemuser_update",
  "user_update",
  "user_create",
  "group_update",
  "application_update",
  "policy_update",
  "command_run",
  "association_change",
  "user_password_change",
  "user_suspended",
  "user_unsuspended",
];

export const adminChange: Writer = (scene) => {
  const { random, user, administrator } = scene;
  const type = random.pick(changedTypes);
  const method = random.chance(0.2) ? "api-key" : random.chance(0.1) ? "api key" : "session";
  const about =
    type === "association_change"
      ? association(scene)
      : `"resource":{"type":"user","id":"${user.id}","username":${quote(user.username)}}`;
  return draft(
    scene,
    "directory",
    type,
    `"initiated_by":${initiatedBy(administrator, "admin")},${about},"changes":${changes(scene)},${placeOf(administrator)},"auth_method":"${method}","success":true,"mfa":${random.chance(0.8)}`,
  );
};

export const selfChange: Writer = (scene) =>
  draft(
    scene,
    "directory",
    scene.random.chance(0.5) ? "user_password_change" : "systemuser_update",
    `"initiated_by":${initiatedBy(scene.user, "user")},"resource":{"type":"user","id":"${scene.user.id}","username":${quote(scene.user.username)}},"changes":${changes(scene)},${placeOf(scene.user)},"auth_method":"session","success":true,"mfa":true`,
  );

function association(scene: Scene): string {
  const group = scene.random.pick(scene.tenant.groups);
  return `"resource":{"type":"user_group","id":"${group.id}","name":"${group.name}"},"association":{"type":"user","id":"${scene.user.id}","email":${quote(scene.user.email)},"op":"add"}`;
}

/** Values of any type, or absent, as the service is seen to send them. */
export function changes(scene: Scene): string {
  const { random } = scene;
  const count = 1 + random.below(3);
  let text = "";
  for (let i = 0; i < count; i++) {
    const value = random.below(5);
    const to =
      value === 0
        ? "true"
        : value === 1
          ? String(random.bits())
          : value === 2
            ? `["a","b"]`
            : `"value ${random.below(1000)}"`;
    const from = random.chance(0.2)
      ? ""
      : `,"from":${random.chance(0.3) ? "null" : `"value ${random.below(1000)}"`}`;
    text += `${i === 0 ? "" : ","}{"field":"${random.pick(userFields)}"${from},"to":${to}}`;
  }
  return `[${text}]`;
}

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
  return {
    service: "directory",
    before: `{"service":"directory","event_type":"${type}","client_ip":"${administrator.place.ip}","resource":{"type":"admin","id":"${administrator.id}","email":${quote(administrator.email)}},"changes":${type === "admin_login_attempt" ? "[]" : changes(scene)},"provider":"${scene.providerId}","id":"${random.hex24()}","timestamp":"`,
    after: `","useragent":${administrator.place.userAgent},"geoip":${administrator.place.geoip},"@version":1,"initiated_by":${by},"auth_method":"session","organization":null,"mfa":true`,
  };
};
