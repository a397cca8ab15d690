import { z } from "zod";
import { type Device, type Fields, type Meaning, number, same, text } from "../core/meaning.ts";
import { defineService } from "../core/service.ts";
import { anyText, eventBase, system, wholeNumber } from "./event-schema.ts";
import { authentication } from "./read/authentication.ts";
import { common } from "./read/common.ts";
import { named, party } from "./read/party.ts";

/**
 * Events on managed systems. `src_ip` is the address that a login came from. `client_ip` is the address of
 * the system itself, and `geoip` describes that one.
 */
export const systems = defineService({
  name: "systems",
  eventTypes: [
    "user_login",
    "user_logout",
    "login_attempt",
    "user_lockout",
    "user_password_change",
    "system_fde_key_update",
    "system_fde_key_decrypt",
    "os_minor_upgrade",
    "os_major_upgrade",
    "os_minor_rollback",
    "os_major_rollback",
    "remote_session_start",
    "remote_session_join",
    "remote_session_end",
    "remote_session_feedback",
    "google_emm_create",
    "google_emm_delete",
    "google_emm_patch",
    "device_command",
    "windows_patch_install",
    "windows_patch_export",
  ],
  event: z.looseObject({
    ...eventBase,
    system_timestamp: anyText.optional(),
    system: system.optional(),
    message: anyText.optional(),
    src_ip: anyText.optional(),
    username: anyText.optional(),
    process_name: anyText.optional(),
    resource: z
      .looseObject({
        type: anyText.optional(),
        id: anyText.optional(),
        name: anyText.optional(),
        username: anyText.optional(),
        hostname: anyText.optional(),
      })
      .optional(),
    app_management_source: anyText.optional(),
    windows_meta: z
      .looseObject({ elevated: z.boolean().optional(), logon_type: wholeNumber.optional() })
      .optional(),
  }),
  describe(event) {
    const meaning = common(event);
    const owner = meaning.target?.kind === "user" ? meaning.target : undefined;
    return {
      ...meaning,
      subject: named(event, owner ?? meaning.actor),
      target: meaning.target ?? party(event.system, "device"),
      ...addresses(event, meaning),
      processName: text(event, "process_name"),
      authentication: authentication(event, undefined, {
        logonType: number(event.windows_meta, "logon_type"),
        service: text(event, "process_name"),
      }),
    };
  },
});

/** Where an administrator made the request, or no system is named, `client_ip` is the requester's. */
function addresses(event: Fields, meaning: Meaning): Pick<Meaning, "device" | "origin"> {
  const { device, origin } = meaning;
  if (device === undefined || meaning.actor?.kind === "admin") return { device, origin };
  const ownIp = text(event, "client_ip");
  const from = text(event, "src_ip");
  const isSame = same(from, ownIp);
  const located: Device = { ...device, ip: ownIp, place: origin?.place };
  return {
    device: located,
    origin: {
      ip: from,
      place: isSame ? origin?.place : undefined,
      network: isSame ? origin?.network : undefined,
      userAgent: origin?.userAgent,
    },
  };
}
