import type { JournalEvent } from "../../core/event.ts";
import { compileTemplate, limitName, type Placeholder } from "../../core/names.ts";
import { DAY_MS } from "../../core/time.ts";

/**
 * The path of an event's file, without number and extension: the template with its placeholders filled in
 * (R22). Evaluated once per combination of the values that the template uses.
 */
export function pathsOf(template: string): (event: JournalEvent) => string {
  const path = compileTemplate(template, PLACEHOLDERS);
  const uses = (name: Placeholder) => template.includes(`{${name}}`);
  const [account, organization, service, eventType, date] = PLACEHOLDERS.map(uses);
  const known = new Map<string, string>();
  let last = { day: 0, account: "", organization: "" as string | null, service: "", eventType: "", path: "" };
  return (event) => {
    // Only what the template uses is decoded.
    const day = date ? Math.floor(event.timestampMs / DAY_MS) : 0;
    const ofAccount = account ? event.account : "";
    const ofOrganization = organization ? event.organization : "";
    const ofService = service ? event.service : "";
    const ofType = eventType ? event.eventType : "";
    // Neighbours mostly share a file.
    if (
      day === last.day &&
      ofOrganization === last.organization &&
      ofService === last.service &&
      ofType === last.eventType &&
      ofAccount === last.account &&
      last.path !== ""
    )
      return last.path;
    const key = `${day}${keyPart(ofAccount)}${keyPart(ofOrganization)}${keyPart(ofService)}${keyPart(ofType)}`;
    let found = known.get(key);
    if (found === undefined) {
      found = path(event)
        .split("/")
        .map((segment) => limitName(segment, SEGMENT_LENGTH_MAX))
        .join("/");
      if (known.size >= KNOWN_MAX) known.clear();
      known.set(key, found);
    }
    last = {
      day,
      account: ofAccount,
      organization: ofOrganization,
      service: ofService,
      eventType: ofType,
      path: found,
    };
    return found;
  };
}

/** Whether the events of one organization and one day all have the same path. */
export function isSharedByDay(template: string): boolean {
  return !template.includes("{service}") && !template.includes("{event_type}");
}

const PLACEHOLDERS = ["account", "organization", "service", "event_type", "date"] as const;
const KNOWN_MAX = 20_000;
/** File systems take 255 bytes; number, extensions and the temporary name come on top. */
const SEGMENT_LENGTH_MAX = 200;

/** With its length, so that no two lists of values give one key. */
function keyPart(value: string | null): string {
  return value === null ? ",-" : `,${value.length}:${value}`;
}

/** The fault of a template, or undefined. */
export function templateFault(template: string): string | undefined {
  try {
    compileTemplate(template, PLACEHOLDERS);
  } catch (error) {
    return (error as Error).message;
  }
  if (!/^[\w.=,@+\-/]*$/.test(template.replaceAll(/\{[^}]*\}/g, "x"))) {
    return "outside placeholders use letters, digits and . _ - = , @ + / alone";
  }
  if (template.split("/").some((segment) => segment === "" || segment.startsWith("."))) {
    return "no part between slashes may be empty or begin with a dot, and the path is relative to the directory";
  }
  return undefined;
}

/** Eight digits, so that names sort in the order of writing. */
export function fileName(path: string, number: number, extension: string): string {
  return `${path}.${String(number).padStart(8, "0")}.${extension}`;
}

/** The path that a file's name was made from, or undefined if it has another extension. */
export function pathOfName(name: string, extension: string): string | undefined {
  const match = /^(.+)\.\d{8,}\.([a-z]+(?:\.(?:zst|gz))?)$/s.exec(name);
  return match?.[2] === extension ? match[1] : undefined;
}
