import { changesOf } from "./changes.ts";
import { draft, eventId, initiatedBy, quote, type Writer } from "./scene.ts";
import { softwareNames } from "./words.ts";

const logonTypes = [2, 3, 4, 5, 7, 8, 9, 10, 11];
const processes = ["loginwindow", "sshd", "winlogon", "gdm-password", "sudo"];

/** The system's own clock, an hour east of Greenwich. */
function localTime(ms: number): string {
  return `${new Date(ms + 3_600_000).toISOString().slice(0, 19)}+01:00`;
}

/** client_ip is the system's public address, and geoip belongs to it; src_ip is where the login came from. */
export const systemLogin: Writer = (scene) => {
  const { random, user, device } = scene;
  const remote = random.pick(scene.tenant.users).place.ip;
  const privateIp = `10.0.${random.below(256)}.${random.below(256)}`;
  const origin = random.pick([
    `,"src_ip":"${privateIp}"`,
    `,"src_ip":"${privateIp}"`,
    `,"src_ip":"${remote}"`,
    `,"src_ip":""`,
    "",
  ]);
  const windows =
    device.os === "windows"
      ? `,"windows_meta":{"elevated":${random.chance(0.1)},"logon_type":${random.pick(logonTypes)}}`
      : "";
  return draft(
    scene,
    "systems",
    random.chance(0.6) ? "user_login" : "login_attempt",
    `"system_timestamp":"${localTime(scene.nowMs)}","system":{"id":"${device.id}","hostname":"${device.hostname}","displayName":"${device.displayName}"},"message":"accepted publickey for ${user.username} from ${user.place.ip} port ${1024 + random.below(60_000)} ssh2","client_ip":"${user.place.ip}"${origin},"geoip":${user.place.geoip},"username":${quote(user.username)},"process_name":"${random.pick(processes)}","success":${!random.chance(0.1)},"provider":null,"initiated_by":{"type":"user","username":${quote(user.username)}}${windows}`,
  );
};

export const systemCommand: Writer = (scene) =>
  draft(
    scene,
    "systems",
    scene.random.pick(["command_result", "policy_result", "os_minor_upgrade", "system_fde_key_update"]),
    `"system":{"id":"${scene.device.id}","hostname":"${scene.device.hostname}","displayName":"${scene.device.displayName}"},"resource":{"type":"system","id":"${scene.device.id}"},"changes":${changesOf(scene, "system")},"success":${!scene.random.chance(0.1)},"app_management_source":"agent","initiated_by":${initiatedBy(scene.administrator, "admin")}`,
  );

export const software: Writer = (scene) => {
  const { random, device } = scene;
  const [name, version, publisher] = random.pick(softwareNames);
  return draft(
    scene,
    "software",
    random.pick([
      "software_add",
      "software_add",
      "software_change",
      "software_remove",
      "software_status_update",
    ]),
    `"provider":"","system":{"id":"${device.id}","type":"${device.os}"},"application":{"name":"${name}","version":"${version}","path":"/applications/${name}","publisher":"${publisher}","uninstall_string":"c:\\\\program files\\\\${name}\\\\uninstall.exe /s"},"changes":${random.chance(0.5) ? "[]" : `[{"field":"version","from":"1.0","to":"${version}"}]`},"resource":{"id":"${random.hex24()}","type":"software_app"},"app_management_source":"self_service"`,
  );
};

const mdmStatus = ["Acknowledged", "Acknowledged", "Acknowledged", "Error", "CommandFormatError", "Idle"];
const mdmRequests = [
  "InstalledApplicationList",
  "CertificateList",
  "DeviceInformation",
  "InstallProfile",
  "SecurityInfo",
  "EraseDevice",
];

/** Some mdm events carry certificates and reach tens of kilobytes. */
export const mdm: Writer = (scene) => {
  const { random, device } = scene;
  const status = random.pick(mdmStatus);
  const request = random.pick(mdmRequests);
  const errors =
    status === "Error"
      ? `[{"error_code":12021,"error_domain":"mcmdmerrordomain","localized_description":"der befehl ist ungültig","us_english_description":"the command is not valid"}]`
      : random.pick(["[]", "null"]);
  const ids = random.chance(0.7)
    ? `"mdm_device_id":"${device.id}","mdm_device_manager_id":"${scene.tenant.groups[0]!.id}"`
    : `"device_object_id":"${device.id}","device_manager_object_id":"${scene.tenant.groups[0]!.id}"`;
  const result = random.chance(0.02)
    ? `"${certificate(random.bits(), 8_000 + random.below(32_000))}"`
    : `"${request} done"`;
  return {
    service: "mdm",
    before: `{"id":"${eventId(random)}","timestamp":"`,
    after: `","organization":"${scene.tenant.id}","event_type":"mdm_command_result","mdm_type":"${device.os === "windows" ? "windows" : "apple"}",${ids},"windows_device_uuid":"${random.uuid()}","initiated_by":${initiatedBy(scene.administrator, "admin")},"command_uuid":"${scene.thread}","request_type":"${request}","command":{"request_type":"${request}"},"status":"${status}","error_chain":${errors},"success":${status === "Acknowledged"},"result":${result},"geoip":${scene.user.place.geoip},"@version":1,"service":"mdm"`,
  };
};

const base64Block = Array.from(
  { length: 1024 },
  (_, i) => "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[(i * 37 + (i >> 3) * 11) & 63],
).join("");

function certificate(salt: number, bytes: number): string {
  return `MII${salt.toString(36)}${base64Block.repeat(Math.ceil(bytes / base64Block.length)).slice(0, bytes)}==`;
}

export const objectStorage: Writer = (scene) => {
  const { random } = scene;
  return draft(
    scene,
    "object_storage",
    random.pick([
      "object_storage_create",
      "object_storage_upload_validation_result",
      "object_storage_delete",
    ]),
    `"result":"success","referrer_object_id":"${scene.device.id}","referrer_type":"software_app","object_storage_item_object_id":"${random.hex24()}","object_storage_item_version_object_id":"${random.hex24()}","object_storage_item_version_name":"setup-${random.below(100)}.pkg","object_storage_item_version_size":${random.below(900_000_000)},"object_storage_item_version_sha_256_sum":"${random.hex24()}${random.hex24()}${random.hex24().slice(0, 16)}","total_software_item_count":${random.below(90)},"total_space_used":${random.bits() * 4096},"system_object_id":"${scene.device.id}"`,
  );
};
