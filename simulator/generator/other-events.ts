import { userChanges } from "./changes.ts";
import { draft, eventId, initiatedBy, labelOf, placeOf, quote, type Writer } from "./scene.ts";

export const alert: Writer = (scene) => {
  const { random, user } = scene;
  return draft(
    scene,
    "alert",
    random.pick(["alert_created", "alert_created", "alert_updated", "alert_status_updated"]),
    `"changes":[],"correlation":{"id":"${scene.thread}"},"category":"security","geoip":${user.place.geoip},"initiated_by":{"type":"system"},"client_ip":"${user.place.ip}","success":true,"severity":"${random.pick(["low", "medium", "high"])}","username":${quote(user.username)},"resource":{"id":"${user.id}","context":"user","source_id":"${random.hex24()}","source_type":"rule","reference_id":"${random.uuid()}"}`,
  );
};

export const notification: Writer = (scene) => ({
  service: "notifications",
  before: `{"id":"${eventId(scene.random)}","timestamp":"`,
  after: `","organization":"${scene.tenant.id}","service":"notifications","event_type":"notification_channel_created","name":"on-call","type":"email","description":"tells the people on call","channel_object_id":"${scene.random.hex24()}","correlation":{"id":"${scene.thread}"},"config":[{"key":"recipient","value":${quote(scene.administrator.email)}}],"success":true,"initiated_by":${initiatedBy(scene.administrator, "admin")},"client_ip":"${scene.administrator.place.ip}"`,
});

export const saas: Writer = (scene) => {
  const { random, user, app } = scene;
  const type = random.pick([
    "saas_management_enable",
    "saas_management_account_discover",
    "saas_management_login_event",
  ]);
  const account =
    type === "saas_management_enable"
      ? ""
      : `,"account_id":"${random.uuid()}","catalog_app_id":"${app.name}"`;
  const login = type === "saas_management_login_event" ? `,"login_identifier":${quote(user.email)}` : "";
  return draft(
    scene,
    "saas_app_management",
    type,
    `"changes":[],"geoip":${user.place.geoip},"initiated_by":${initiatedBy(user, "user")},"client_ip":"${user.place.ip}","username":${quote(user.username)},"resource":{"application_id":"${app.id}","application_name":${labelOf(app)},"application_category":"productivity"},"detail":"seen in the browser"${account}${login}`,
  );
};

export const report: Writer = (scene) => {
  const { random, administrator } = scene;
  return draft(
    scene,
    "reports",
    random.pick(["report_run", "report_run", "report_export"]),
    `"changes":[],"resource":{"name":"users without mfa","id":"${random.hex24()}","description":"monthly","resources":"user","search_request":"{}","configuration":"default"},"initiated_by":${initiatedBy(administrator, "admin")},"auth_method":"session","client_ip":"${administrator.place.ip}","user_agent":${administrator.place.userAgent},"geoip":${administrator.place.geoip},"provider":"${random.uuid()}"`,
  );
};

/** Services whose fields the specification does not show, and two that it does not even name. */
const obscure: readonly (readonly [service: string, type: string])[] = [
  ["asset_management", "asset_management_asset_update"],
  ["genai", "genai_prompt"],
  ["aigw", "aigw_request"],
  ["ai_admin", "ai_admin_policy_update"],
  ["di_events", "generic_event"],
  ["workflows", "workflow_run"],
  ["pam", "pam_session_start"],
];

export const unknown: Writer = (scene) => {
  const { random, user } = scene;
  const [service, type] = random.pick(obscure);
  const rest = `"version":"2","initiated_by":${initiatedBy(user, "user")},${placeOf(user)},"success":true,"changes":${userChanges(scene)},"sequence":9007199254740993${random.below(10)},"ratio":1.0,"tags":["new","${random.below(50)}"],"nested":{"deep":{"deeper":{"value":${random.bits()}}}}`;
  if (!random.chance(0.05)) return draft(scene, service, type, rest);
  // Rows without event_type exist.
  return {
    service,
    before: `{"id":"${eventId(random)}","organization":"${scene.tenant.id}","service":"${service}","timestamp":"`,
    after: `",${rest}`,
  };
};
