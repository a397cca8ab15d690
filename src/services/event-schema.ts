import { z } from "zod";

/** The fields that services share: as specified, and as seen in real events. All objects allow more fields. */
export const anyText = z.string();
export const wholeNumber = z.union([z.number(), z.string()]);
/** An integer or a string: both are served. */
export const schemaVersion = wholeNumber;
/** Null, "" or absent where there is none. */
const provider = z.string().nullable();

/** `from` and `to` hold any type, or are absent. */
const changeList = z.array(
  z.looseObject({ field: z.string().optional(), from: z.unknown().optional(), to: z.unknown().optional() }),
);

const coordinates = z.union([z.number(), z.string()]).optional();
const place = {
  timezone: anyText.optional(),
  continent_code: anyText.optional(),
  region_code: anyText.optional(),
  region_name: anyText.optional(),
  country_code: anyText.optional(),
  city_name: anyText.optional(),
  latitude: coordinates,
  longitude: coordinates,
};
/** Flat, or nested one level deeper. */
const geoip = z.looseObject({ ...place, geoip: z.looseObject(place).optional() });

const agent = {
  os: anyText.optional(),
  os_name: anyText.optional(),
  os_major: anyText.optional(),
  os_minor: anyText.optional(),
  os_patch: anyText.optional(),
  os_full: anyText.optional(),
  os_version: anyText.optional(),
  name: anyText.optional(),
  version: anyText.optional(),
  major: anyText.optional(),
  minor: anyText.optional(),
  patch: anyText.optional(),
  build: anyText.optional(),
  device: anyText.optional(),
};
/** An object, nested or not, or the header's text. */
export const userAgent = z.union([
  z.string(),
  z.looseObject({
    ...agent,
    useragent: z.looseObject(agent).optional(),
    user_agent: z.looseObject(agent).optional(),
  }),
]);

const initiatedBy = z.looseObject({
  id: anyText.optional(),
  type: anyText.optional(),
  email: anyText.optional(),
  username: anyText.optional(),
  user_id: anyText.optional(),
  administrator: z.boolean().optional(),
  provider: provider.optional(),
  source: anyText.optional(),
  source_metadata: z.looseObject({ name: anyText.optional() }).optional(),
});

const associationEnd = z.looseObject({
  type: anyText.optional(),
  object_id: anyText.optional(),
  id: anyText.optional(),
  name: anyText.optional(),
});
/** Both ends under `connection`, with an op; older events have the fields of one end. */
export const association = z.looseObject({
  op: anyText.optional(),
  action_source: anyText.optional(),
  connection: z
    .looseObject({ from: associationEnd.optional(), to: associationEnd.optional() })
    .nullable()
    .optional(),
  attributes: z.looseObject({}).nullable().optional(),
  id: anyText.optional(),
  type: anyText.optional(),
  username: anyText.optional(),
  email: anyText.optional(),
});

export const system = z.looseObject({
  id: anyText.optional(),
  type: anyText.optional(),
  hostname: anyText.optional(),
  displayName: anyText.optional(),
});

export const correlation = z.looseObject({ id: anyText.optional(), type: anyText.optional() });
export const mfaMeta = z.looseObject({ type: anyText.optional() });
export const factor = z.looseObject({ success: z.boolean().optional() });

/** The phone that confirmed a login. */
export const protectDevice = z.looseObject({
  id: anyText.optional(),
  make: anyText.optional(),
  model: anyText.optional(),
  os: anyText.optional(),
  os_version: anyText.optional(),
  app_version: anyText.optional(),
  username: anyText.optional(),
  user_id: anyText.optional(),
  ip: anyText.optional(),
  geoip: geoip.optional(),
});

/** How a login was proved, from which managed device, and the conditional policies that applied. */
export const authContext = z.looseObject({
  auth_methods: z.record(z.string(), factor).optional(),
  jumpcloud_protect_device: protectDevice.optional(),
  system: z
    .looseObject({
      hostname: anyText.optional(),
      id: anyText.optional(),
      displayName: anyText.optional(),
      os: anyText.optional(),
      version: schemaVersion.optional(),
    })
    .optional(),
  policies_applied: z
    .array(
      z.looseObject({
        name: anyText.optional(),
        id: anyText.optional(),
        metadata: z
          .looseObject({
            action: anyText.optional(),
            resource_type: anyText.optional(),
            conditions: z.array(anyText).optional(),
          })
          .optional(),
      }),
    )
    .optional(),
});

/** Fields that every event may have. */
export const eventBase = {
  id: anyText.optional(),
  event_type: anyText,
  timestamp: anyText,
  service: anyText.optional(),
  organization: z.string().nullable().optional(),
  provider: provider.optional(),
  "@version": schemaVersion.optional(),
  version: schemaVersion.optional(),
  success: z.boolean().optional(),
  error_message: z.string().nullable().optional(),
  changes: changeList.nullable().optional(),
  initiated_by: initiatedBy.optional(),
  jc_initiated_by_email: anyText.optional(),
  client_ip: anyText.optional(),
  geoip: geoip.optional(),
  asn: z
    .union([
      wholeNumber,
      z.looseObject({
        number: wholeNumber.optional(),
        asn: wholeNumber.optional(),
        organization: anyText.optional(),
        organization_name: anyText.optional(),
      }),
    ])
    .optional(),
};
