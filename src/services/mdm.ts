import { z } from "zod";
import { type Device, type Fields, isFields, type Outcome, text } from "../core/meaning.ts";
import { defineService } from "../core/service.ts";
import { anyText, eventBase, wholeNumber } from "./event-schema.ts";
import { common, outcomeByWord } from "./read/common.ts";

/** Commands to mobile devices, and their enrolment. */
export const mdm = defineService({
  name: "mdm",
  eventTypes: ["mdm_command_result", "device_enrollment", "configuration_file_download"],
  event: z.looseObject({
    ...eventBase,
    mdm_type: anyText.optional(),
    mdm_device_id: anyText.optional(),
    mdm_device_manager_id: anyText.optional(),
    device_object_id: anyText.optional(),
    device_manager_object_id: anyText.optional(),
    windows_device_uuid: anyText.optional(),
    command_uuid: anyText.optional(),
    request_type: anyText.optional(),
    command: z.looseObject({ request_type: anyText.optional() }).optional(),
    status: anyText.optional(),
    error_chain: z
      .array(
        z.looseObject({
          error_code: wholeNumber.optional(),
          error_domain: anyText.optional(),
          localized_description: anyText.optional(),
          us_english_description: anyText.optional(),
        }),
      )
      .nullable()
      .optional(),
    result: anyText.optional(),
  }),
  describe(event) {
    const meaning = common(event);
    const found = managed(event);
    return {
      ...meaning,
      device: meaning.device ?? found,
      target: meaning.target ?? (found && { kind: "device", id: found.id }),
      outcome: commandOutcome(event, meaning.outcome),
      message: meaning.message ?? text(event, "result"),
    };
  },
});

function managed(event: Fields): Device | undefined {
  const id =
    text(event, "mdm_device_id") ?? text(event, "device_object_id") ?? text(event, "windows_device_uuid");
  return id && { id };
}

/** "Idle" is neither success nor failure. A failed command has a chain of errors. */
function commandOutcome(event: Fields, outcome: Outcome): Outcome {
  const known = outcomeByWord(
    outcome,
    text(event, "status"),
    ["acknowledged"],
    ["error", "commandformaterror"],
  );
  const first: unknown = Array.isArray(event.error_chain) ? event.error_chain[0] : undefined;
  if (!isFields(first)) return known;
  return {
    ...known,
    reason: known.reason ?? text(first, "us_english_description") ?? text(first, "localized_description"),
    code: known.code ?? text(first, "error_code"),
  };
}
