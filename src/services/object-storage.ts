import { z } from "zod";
import { text } from "../core/meaning.ts";
import { defineService } from "../core/service.ts";
import { anyText, eventBase, wholeNumber } from "./event-schema.ts";
import { common, outcomeByWord } from "./read/common.ts";

/** Files kept for distribution to systems. */
export const objectStorage = defineService({
  name: "object_storage",
  eventTypes: [
    "object_storage_create",
    "object_storage_upload_validation_result",
    "object_storage_get_download_url_request",
    "object_storage_delete",
  ],
  event: z.looseObject({
    ...eventBase,
    result: anyText.optional(),
    referrer_object_id: anyText.optional(),
    referrer_type: anyText.optional(),
    object_storage_item_object_id: anyText.optional(),
    object_storage_item_version_object_id: anyText.optional(),
    object_storage_item_version_name: anyText.optional(),
    object_storage_item_version_size: wholeNumber.optional(),
    object_storage_item_version_sha_256_sum: anyText.optional(),
    total_software_item_count: wholeNumber.optional(),
    total_space_used: wholeNumber.optional(),
    system_object_id: anyText.optional(),
  }),
  describe(event) {
    const meaning = common(event);
    const id = text(event, "object_storage_item_object_id");
    const name = text(event, "object_storage_item_version_name");
    const systemId = text(event, "system_object_id");
    return {
      ...meaning,
      item: id || name ? { id, name } : undefined,
      target: meaning.target ?? (id || name ? { kind: "other", id, name } : undefined),
      device: meaning.device ?? (systemId && { id: systemId }),
      outcome: outcomeByWord(
        meaning.outcome,
        text(event, "result"),
        ["success", "succeeded"],
        ["failure", "failed", "error"],
      ),
    };
  },
});
