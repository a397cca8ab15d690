import { draft, initiatedBy, placeOf, quote, type Writer } from "./scene.ts";

export const sso: Writer = (scene) => {
  const { random, user, app } = scene;
  // sso_auth has no `success`: the outcome is sso_token_success, and false without a message is an MFA step.
  const outcome = random.chance(0.04)
    ? `"sso_token_success":false,"error_message":"user is not bound to the application"`
    : `"sso_token_success":${!random.chance(0.1)}`;
  return draft(
    scene,
    "sso",
    "sso_auth",
    `"initiated_by":{"type":"user","id":"${user.id}","username":${quote(user.username)}},"application":{"display_label":${quote(app.displayLabel)},"id":"${app.id}","name":"${app.name}","sso_url":"${app.ssoUrl}"},${placeOf(user)},"idp_initiated":${random.chance(0.3)},"auth_meta":{"auth_methods":{"password":{"success":true}}},${outcome}`,
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
  return {
    service: "ldap",
    before: `{"service":"ldap","event_type":"${type}","organization":"${tenant.id}","connection_id":"${scene.thread}","operation_number":${scene.step >> 1},"timestamp":"`,
    after: `","dn":${quote(dn)},${what},"start_tls":true,"tls_established":true,"username":${quote(user.username)},"success":${success},"error_code":${success ? 0 : 49},"error_message":"${success ? "" : "invalid credentials"}","oid":"","initiated_by":{"type":"user","username":${quote(user.username)}},"auth_meta":{"auth_methods":{"password":{"success":${success}}}},"@version":"1"`,
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
  return draft(
    scene,
    "password_vault",
    random.pick(vaultTypes),
    `"initiated_by":{"id":"${user.id}","type":"user","email":${quote(user.email)},"source":"desktop"},"association":{"type":"item","id":"${random.uuid()}"},"changes":[],"client_ip":"${user.place.ip}","user_agent":{"name":"desktop app","version":"3.2.${random.below(40)}","os":"${scene.device.os}"},"success":true,"geoip":${user.place.geoip},"provider":"${random.uuid()}"`,
  );
};

export const accessRequest: Writer = (scene) => {
  const { random, user, app } = scene;
  const type =
    scene.step === 0 ? "access_management_access_request" : "access_management_access_request_approval";
  return draft(
    scene,
    "access_management",
    type,
    `"pid":"","access_request_id":"${scene.thread}","changes":[],"resource":{"type":"application","id":"${app.id}","name":${quote(app.displayLabel)}},"workflow":{"type":"approval","id":"${scene.tenant.groups[0]!.id}","name":"manager approval","desc":"asks the manager"},"initiated_by":${initiatedBy(user, "user")},"client_ip":"${user.place.ip}","user_agent":${user.place.userAgent},"success":${!random.chance(0.1)},"geoip":${user.place.geoip},"provider":"${random.uuid()}"`,
  );
};
