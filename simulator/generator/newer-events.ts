import { draft, initiatedBy, labelOf, quote, userResource, type Writer } from "./scene.ts";

/** Event types that are newer than the specification, a few of each. */
export const newer: Writer = (scene) => scene.random.pick(writers)(scene);

const vault: Writer = (scene) =>
  draft(
    scene,
    "password_vault",
    `passwordvault_credential_${scene.random.pick(["reveal", "copy", "export", "viewsecret"])}`,
    `"resource":{"type":"credential","id":"${scene.random.uuid()}","name":"prod-db"},"initiated_by":${initiatedBy(scene.user, "user")},"client_ip":"${scene.user.place.ip}","geoip":${scene.user.place.geoip},"success":true`,
  );

const risk: Writer = (scene) =>
  draft(
    scene,
    "directory",
    scene.random.pick(["risk_event_created", "risk_event_resolved"]),
    `"resource":{"type":"risk_event","id":"${scene.thread}","name":"impossible travel"},"severity":"high","category":"impossible_travel","username":${quote(scene.user.username)},"initiated_by":{"type":"system"},"client_ip":"${scene.user.place.ip}","geoip":${scene.user.place.geoip}`,
  );

const certificate: Writer = (scene) =>
  draft(
    scene,
    "directory",
    scene.random.pick(["cert_issued_manual", "cert_revoked"]),
    `"resource":{"type":"certificate","id":"${scene.thread}","name":${quote(`vpn-${scene.user.username}`)}},"initiated_by":${initiatedBy(scene.administrator, "admin")},"success":true`,
  );

const assistant: Writer = (scene) =>
  draft(
    scene,
    "aigw",
    scene.random.pick(["aigw_session_opened", "aigw_session_activity", "aigw_session_closed"]),
    `"resource":{"type":"aigw_session","id":"${scene.thread}"},"application":{"name":"assistant"},"username":${quote(scene.user.username)},"initiated_by":${initiatedBy(scene.user, "user")},"success":true`,
  );

const grant: Writer = (scene) =>
  draft(
    scene,
    "directory",
    "system_admin_grant",
    `"resource":{"type":"system","id":"${scene.device.id}","hostname":"${scene.device.hostname}"},"association":{"type":"user","id":"${scene.user.id}","username":${quote(scene.user.username)}},"initiated_by":${initiatedBy(scene.administrator, "admin")},"success":true`,
  );

const patch: Writer = (scene) =>
  draft(
    scene,
    "systems",
    "windows_patch_install",
    `"system":{"id":"${scene.device.id}","hostname":"${scene.device.hostname}","displayName":"${scene.device.displayName}"},"resource":{"type":"patch","id":"kb50${scene.random.below(90_000) + 10_000}","name":"kb5031234"},"initiated_by":{"type":"system"},"success":${!scene.random.chance(0.1)}`,
  );

const redirect: Writer = (scene) =>
  draft(
    scene,
    "directory",
    "redirect_uri_create",
    `"resource":{"type":"application","id":"${scene.app.id}","name":${labelOf(scene.app)}},"initiated_by":${initiatedBy(scene.administrator, "admin")},"success":true`,
  );

const lockedOut: Writer = (scene) =>
  draft(
    scene,
    "directory",
    "user_locked_out",
    `"resource":${userResource(scene.user)},"initiated_by":${initiatedBy(scene.user, "user")},"client_ip":"${scene.user.place.ip}","geoip":${scene.user.place.geoip},"success":true`,
  );

const writers: readonly Writer[] = [vault, risk, certificate, assistant, grant, patch, redirect, lockedOut];
