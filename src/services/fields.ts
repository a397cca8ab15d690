import { z } from "zod";

/** The fields that services share, as specified, with what the field has shown beside it. All are open to more. */
export const anyText = z.string();
export const wholeNumber = z.union([z.number(), z.string()]);
/** An integer or a string: both are served. */
export const schemaVersion = wholeNumber;
/** Null, "" or absent where there is none. */
export const provider = z.string().nullable();

/** `from` and `to` hold any type, or are absent. */
export const changeList = z.array(
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
export const geoip = z.looseObject({ ...place, geoip: z.looseObject(place).optional() });

const agent = {
  os: anyText.optional(),
  os_name: anyText.optional(),
  os_major: anyText.optional(),
  os_minor: anyText.optional(),
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

export const initiatedBy = z.looseObject({
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

export const association = z.looseObject({
  id: anyText.optional(),
  type: anyText.optional(),
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

/** What every event may carry. */
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
  client_ip: anyText.optional(),
  geoip: geoip.optional(),
};
