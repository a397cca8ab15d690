import { z } from "zod";
import { text } from "../core/meaning.ts";
import { defineService } from "../core/service.ts";
import { association, eventBase, userAgent } from "./event-schema.ts";
import { common } from "./read/common.ts";

const PREFIX = "passwordmanager_";

/** The password manager. Requests call the service `password_manager`, events call it `password_vault`. */
export const passwordVault = defineService({
  name: "password_vault",
  aliases: ["password_manager"],
  eventTypes: [
    ...[
      ...["enable", "disable", "user_enable", "user_disable", "websites_export"],
      ...verbs("credential", "add archive autofill copy delete duplicate export history_reveal import"),
      ...verbs("credential", "reveal shareuser shareusergroup update viewdetail viewsecret"),
      ...verbs("personalfolder sharedfolder", "create delete group_add"),
      ...verbs("personalfolder_user sharedfolder_user", "add remove update"),
      ...verbs("personalfolder_credential sharedfolder_credential", "add remove update"),
      ...verbs("personalfolder_website sharedfolder_website", "add remove update"),
      ...verbs("website", "add archive connect copy delete duplicate linkcredential shareuser"),
      ...verbs("website", "shareusergroup update viewdetails"),
    ].map((name) => `passwordvault_${name}`),
    ...[
      ...["enable", "disable", "force_sync", "mini_launch", "pincode_update"],
      ...["app_update", "app_unlock", "paranoid_mode_enable", "paranoid_mode_disable"],
      ...["user_enable", "user_disable", "user_activate", "user_deactivate", "user_reactivate"],
      ...["user_device_pair", "user_device_unpair", "user_signup", "user_re-enable", "user_update"],
      ...["user_remove", "folder_create", "folder_delete", "folder_update", "folder_force_sync"],
      ...["folder_member_add", "folder_member_update", "folder_member_remove"],
      ...["folder_group_add", "folder_group_update", "folder_group_remove"],
      ...["sharedfolders_policy_group_add", "sharedfolders_policy_group_remove"],
      ...["sharedfolders_policy_user_add", "sharedfolders_policy_user_remove"],
      ...["sharedfolders_policy_update", "item_add", "item_update", "item_remove", "item_move"],
      ...["item_reveal", "item_copy", "item_autofill", "item_settings_update", "item_history_reveal"],
      ...["item_history_restore", "items_export", "items_import", "backup_create", "backup_request"],
      ...["backup_key_create", "backup_key_delete", "backup_key_regenerate", "backup_enable"],
      ...["backup_disable", "backup_request_restore", "backup_request_cancel", "backup_request_reject"],
      ...["backup_request_approve", "local_backup_create", "local_backup_path_update"],
      ...["local_backup_restore", "extension_settings_update", "extension_unlock", "extension_pair"],
      "extension_site_exclusion",
    ].map((name) => PREFIX + name),
  ],
  event: z.looseObject({
    ...eventBase,
    association: association.optional(),
    user_agent: userAgent.optional(),
    resource: z.looseObject({}).optional(),
  }),
  describe(event) {
    const meaning = common(event);
    const owner = text(event, "organization");
    return {
      ...meaning,
      subject: meaning.actor,
      // Without a folder, item or user the event is about the vault of the whole organization.
      target: meaning.target ?? meaning.associate ?? (owner && { kind: "organization", id: owner }),
      item: meaning.target && { id: meaning.target.id, name: meaning.target.name, type: meaning.target.type },
    };
  },
});

function verbs(subjects: string, words: string): string[] {
  return subjects.split(" ").flatMap((subject) => words.split(" ").map((word) => `${subject}_${word}`));
}
