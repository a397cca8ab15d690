import { z } from "zod";
import { type Device, type Fields, number, text } from "../core/meaning.ts";
import { defineService } from "../core/service.ts";
import { anyText, eventBase, system, wholeNumber } from "./fields.ts";
import { authentication, common } from "./parts.ts";
import { named, party } from "./party.ts";

/** What happens on managed systems. `src_ip` is where a login came from; `client_ip` is the system itself. */
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
      .looseObject({ type: anyText.optional(), id: anyText.optional(), username: anyText.optional() })
      .optional(),
    app_management_source: anyText.optional(),
    windows_meta: z
      .looseObject({ elevated: z.boolean().optional(), logon_type: wholeNumber.optional() })
      .optional(),
  }),
  describe(event) {
    const meaning = common(event);
    const owner = meaning.target?.kind === "user" ? meaning.target : undefined;
    const onSystem = ownDevice(event, meaning.device);
    return {
      ...meaning,
      subject: named(event, owner ?? meaning.actor),
      target: meaning.target ?? party(event.system, "device"),
      device: onSystem,
      // What an administrator does names no system, and its client_ip is theirs.
      origin: onSystem ? { ...meaning.origin, ip: text(event, "src_ip") } : meaning.origin,
      processName: text(event, "process_name"),
      authentication: authentication(event, undefined, {
        logonType: number(event.windows_meta, "logon_type"),
        service: text(event, "process_name"),
      }),
    };
  },
});

function ownDevice(event: Fields, device: Device | undefined): Device | undefined {
  return device && { ...device, ip: text(event, "client_ip") };
}
