import { json } from "../http/exchange.ts";
import { createRandom } from "../random.ts";
import { slice } from "./list-query.ts";
import type { Parts, Route } from "./router.ts";

/** One organization, and the directories of it. The list of all is answered where x-org-id is judged. */
export function organizationRoutes(_: Parts): Route[] {
  return [
    {
      method: "GET",
      path: "/organizations/:organization",
      handle: (call) => json(200, organizationRecord(call.organization)),
    },
    {
      method: "GET",
      path: "/v2/directories",
      handle(call) {
        const random = createRandom(Number.parseInt(call.organization.id.slice(0, 12), 16), 8);
        const directories = [
          ...["ldap_server", "g_suite", "office_365", "workday", "active_directory"],
          ...Array.from({ length: 9 }, () => "ldap_server"),
        ];
        const all = directories.map((type) => ({
          id: random.hex24(),
          name: `${call.organization.name} ${type}`,
          type,
        }));
        return json(200, slice(all, call.query));
      },
    },
  ];
}

export function organizationRecord({ id, name }: { id: string; name: string }) {
  return { _id: id, displayName: name, logoUrl: "" };
}
