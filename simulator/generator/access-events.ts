import {
  authMethods,
  contextSystem,
  draft,
  initiatedBy,
  labelOf,
  placeOf,
  protectDevice,
  quote,
  type Writer,
} from "./scene.ts";

const ssoTypes = ["saml", "saml", "saml", "oidc", "bookmark"] as const;

/**
 * Single sign-on. There is no `success`: the outcome is sso_token_success, and false without a message is an
 * MFA step. `auth_context.system` is a managed device; without it the device is unknown.
 */
export const sso: Writer = (scene) => {
  const { random, user, app } = scene;
  const type = random.pick(ssoTypes);
  const isPush = random.chance(0.25);
  const isPushRight = !random.chance(0.1);
  const isDenied = random.chance(0.04);
  const success = !isDenied && (!isPush || isPushRight) && !random.chance(0.05);
  const outcome = isDenied
    ? `"sso_token_success":false,"error_message":"policy denied"`
    : `"sso_token_success":${success}`;
  const methods = authMethods({ password: true, ...(isPush ? { jumpcloud_protect: isPushRight } : {}) });
  const system = random.chance(0.6) ? `,"system":${contextSystem(scene.device)}` : "";
  const policy = random.chance(0.2)
    ? `,"policies_applied":[{"id":"${scene.thread.slice(0, 8)}","name":"managed only","metadata":{"action":"ALLOW_WITH_MFA","resource_type":"APPLICATION","conditions":["MANAGED_DEVICE"]}}]`
    : "";
  const phone = isPush ? `,"jumpcloud_protect_device":${protectDevice(user)}` : "";
  return draft(
    scene,
    "sso",
    random.chance(0.01) ? "sso_auth_failed" : "sso_auth",
    `"initiated_by":{"type":"user","id":"${user.id}","username":${quote(user.username)}},"jc_initiated_by_email":${quote(user.email)},"application":{"id":"${app.id}","name":"${type === "saml" ? "saml2" : type}","display_label":${labelOf(app)},"sso_url":"${app.ssoUrl}","sso_type":"${type}"},${placeOf(user)},"idp_initiated":${random.chance(0.3)},"mfa":${isPush && isPushRight},"mfa_meta":{"type":"${isPush ? "push" : "none"}"},"asn":{"number":64496,"organization":"example telecom"},"auth_context":{"auth_methods":${methods}${system}${policy}${phone}},${outcome}`,
  );
};

const radiusStates = ["disabled", "enabled", "required", "always"];

export const radius: Writer = (scene) => {
  const { random, user } = scene;
  const success = !random.chance(0.12);
  const failure = success ? "" : `,"error_message":"mschap: ms-chap2-response is incorrect"`;
  return draft(
    scene,
    "radius",
    random.chance(0.2) ? "radius_auth_attempt" : "radius_auth",
    `"initiated_by":{"type":"user","username":${quote(user.username)}},"username":${quote(user.username)},"nas_mfa_state":"${random.pick(radiusStates)}","auth_type":"eap","eap_type":"peap","client_ip":"${user.place.ip}","geoip":${user.place.geoip},"success":${success},"mfa":false,"mfa_meta":{"type":"none"},"outer":{"eap_type":"peap","error_message":"","username":"anonymous@${scene.tenant.name}"}${failure}`,
  );
};

/** ldap events have no id; operation_number counts request and result pairs, so two events can share it. */
export const ldap: Writer = (scene) => {
  const { random, user, tenant } = scene;
  const bind = scene.step === 0;
  const type = bind ? "ldap_bind" : random.chance(0.2) ? "ldap_srch" : "ldap_search";
  const dn = `uid=${user.username},ou=users,o=${tenant.id},dc=directory,dc=example`;
  const what = bind
    ? `"auth_method":${random.pick([128, 128, 163, 0])},"mech":"simple"`
    : `"base":"o=${tenant.id},dc=directory,dc=example","scope":2,"deref":0,"filter":"(&(objectclass=inetorgperson)(uid=${user.username}))","attr":"cn mail memberof","number_of_results":${random.below(200)}`;
  const success = !random.chance(0.05);
  const withPush = random.chance(0.05);
  const factors = {
    password: success,
    ...(withPush ? { jumpcloud_protect: success } : random.chance(0.1) ? { totp: success } : {}),
  };
  const phone = withPush ? `,"jumpcloud_protect_device":${protectDevice(user)}` : "";
  const meta = `{"auth_methods":${authMethods(factors)}${phone}}`;
  return {
    service: "ldap",
    before: `{"service":"ldap","event_type":"${type}","organization":"${tenant.id}","connection_id":"${scene.thread}","operation_number":${scene.step >> 1},"timestamp":"`,
    after: `","dn":${quote(dn)},${what},"start_tls":true,"tls_established":true,"username":${quote(user.username)},"success":${success},"error_code":${success ? 0 : 49},"error_message":"${success ? "" : "invalid credentials"}","oid":"","initiated_by":{"type":"user","username":${quote(user.username)}},"auth_meta":${meta},"@version":1`,
  };
};

const vaultTypes = [
  "passwordvault_enable",
  "passwordmanager_item_add",
  "passwordmanager_item_reveal",
  "passwordmanager_item_autofill",
  "passwordmanager_folder_create",
  "passwordmanager_user_device_pair",
];

export const passwordVault: Writer = (scene) => {
  const { random, user } = scene;
  const error = random.chance(0.05) ? `,"error_message":"the vault is locked"` : "";
  return draft(
    scene,
    "password_vault",
    random.pick(vaultTypes),
    `"initiated_by":{"id":"${user.id}","type":"user","email":${quote(user.email)},"source":"desktop"},"association":{"type":"item","id":"${random.uuid()}"},"changes":[],"client_ip":"${user.place.ip}","user_agent":{"name":"desktop app","version":"3.2.${random.below(40)}","os":"${scene.device.os}"},"success":${error === ""},"geoip":${user.place.geoip},"provider":"${random.uuid()}"${error}`,
  );
};

export const accessRequest: Writer = (scene) => {
  const { random, user, app } = scene;
  const isAllowed = !random.chance(0.1);
  const type =
    scene.step === 0 ? "access_management_access_request" : "access_management_access_request_approval";
  return draft(
    scene,
    "access_management",
    type,
    `"pid":"","access_request_id":"${scene.thread}","changes":[],"resource":{"type":"application","id":"${app.id}","name":${labelOf(app)}},"association":{"type":"user","id":"${user.id}"},"workflow":{"type":"approval","id":"${scene.tenant.groups[0]!.id}","name":"manager approval","desc":"asks the manager"},"initiated_by":${initiatedBy(user, "user")},"client_ip":"${user.place.ip}","user_agent":${user.place.userAgent},"success":${isAllowed},"geoip":${user.place.geoip},"provider":"${random.uuid()}"${isAllowed ? "" : `,"error_message":"the request was declined"`}`,
  );
};
