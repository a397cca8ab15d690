import { type Fields, isFields, type Network, numberLeaf, type Place, textLeaf } from "../../core/meaning.ts";
import type { Writable } from "./writable.ts";

/** geoip is flat, or nested one level deeper under its own name. */
export function placeOf(geoip: unknown): Place | undefined {
  if (!isFields(geoip)) return undefined;
  const flat = isFields(geoip.geoip) ? geoip.geoip : geoip;
  const place: Writable<Place> = {
    city: undefined,
    country: undefined,
    regionCode: undefined,
    regionName: undefined,
    continentCode: undefined,
    postalCode: undefined,
    timezone: undefined,
    latitude: undefined,
    longitude: undefined,
  };
  for (const key in flat) {
    const value = flat[key];
    switch (key) {
      case "city_name":
      case "city":
        place.city ??= textLeaf(value, flat, key);
        break;
      case "country_code":
        place.country = textLeaf(value, flat, key);
        break;
      case "region_code":
        place.regionCode = textLeaf(value, flat, key);
        break;
      case "region_name":
        place.regionName = textLeaf(value, flat, key);
        break;
      case "continent_code":
        place.continentCode = textLeaf(value, flat, key);
        break;
      case "postal_code":
        place.postalCode = textLeaf(value, flat, key);
        break;
      case "timezone":
        place.timezone = textLeaf(value, flat, key);
        break;
      case "latitude":
        place.latitude = numberLeaf(value, flat, key);
        break;
      case "longitude":
        place.longitude = numberLeaf(value, flat, key);
        break;
    }
  }
  return place;
}

/** An object with number and organization, or the number alone. */
export function networkOf(asn: unknown, event: Fields, key: string): Network | undefined {
  if (!isFields(asn)) {
    const number = numberLeaf(asn, event, key);
    return number && { number };
  }
  const found: Writable<Network> = {};
  for (const name in asn) {
    const value = asn[name];
    switch (name) {
      case "number":
      case "asn":
        found.number ??= numberLeaf(value, asn, name);
        break;
      case "organization":
      case "organization_name":
        found.organization ??= textLeaf(value, asn, name);
        break;
    }
  }
  return found.number || found.organization ? found : undefined;
}
