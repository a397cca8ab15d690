import { z } from "zod";
import { type Fields, isFields, type Party, text } from "../core/meaning.ts";
import { defineService } from "../core/service.ts";
import { anyText, eventBase, factor, protectDevice, wholeNumber } from "./event-schema.ts";
import { authentication } from "./read/authentication.ts";
import { common } from "./read/common.ts";
import { named } from "./read/party.ts";

/** Binds and searches. These events may have no id. */
export const ldap = defineService({
  name: "ldap",
  eventTypes: ["ldap_bind", "ldap_search", "ldap_srch"],
  event: z.looseObject({
    ...eventBase,
    connection_id: anyText.optional(),
    operation_number: wholeNumber.optional(),
    dn: anyText.optional(),
    auth_method: wholeNumber.optional(),
    mech: anyText.optional(),
    start_tls: z.boolean().optional(),
    tls_established: z.boolean().optional(),
    username: anyText.optional(),
    error_code: wholeNumber.optional(),
    oid: anyText.optional(),
    base: anyText.optional(),
    scope: wholeNumber.optional(),
    deref: wholeNumber.optional(),
    filter: anyText.optional(),
    attr: anyText.optional(),
    number_of_results: wholeNumber.optional(),
    auth_meta: z
      .looseObject({
        auth_methods: z.record(z.string(), factor).optional(),
        jumpcloud_protect_device: protectDevice.optional(),
      })
      .optional(),
  }),
  describe(event) {
    const meaning = common(event);
    const bound = binder(event, meaning.actor);
    const base = text(event, "base");
    return {
      ...meaning,
      actor: bound,
      subject: bound,
      // The target of a search is the part of the tree that was searched.
      target: meaning.target ?? (base && { kind: "other", name: base }),
      authentication: authentication(event, isFields(event.auth_meta) ? event.auth_meta.auth_methods : {}, {
        protocol: "ldap",
      }),
    };
  },
});

function binder(event: Fields, actor: Party | undefined): Party | undefined {
  const distinguishedName = text(event, "dn");
  const known = named(event, actor);
  if (distinguishedName === undefined) return known;
  return known ? { ...known, distinguishedName } : { kind: "user", name: distinguishedName };
}
