import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { z } from "zod";
import type { Control } from "./control.ts";
import { json, problemAnswer, readBody } from "./http/exchange.ts";
import type { Fault } from "./http/faults.ts";
import { Problem } from "./http/problem.ts";
import type { SystemOption } from "./world-control.ts";

type Handler = (body: Buffer, query: URLSearchParams) => unknown;

const clockBody = z.strictObject({
  set: z.union([z.string(), z.number()]).optional(),
  advanceMs: z.number().optional(),
  speed: z.number().min(0).optional(),
  skewMs: z.number().optional(),
});
const faultBody = z.array(z.looseObject({ kind: z.string() }));
const eventsBody = z.object({
  organization: z.string(),
  events: z.array(z.record(z.string(), z.unknown())),
  delayMs: z.number().optional(),
});

const userBody = z.strictObject({
  organization: z.string(),
  user: z.string(),
  action: z.enum(["suspend", "unsuspend", "delete"]),
});
const memberBody = z.strictObject({
  organization: z.string(),
  group: z.string(),
  user: z.string(),
  member: z.boolean(),
});
const systemBody = z.strictObject({
  organization: z.string(),
  os: z.string().optional(),
  enrollment: z.enum(["agent", "ade", "portal"]).optional(),
  publicKey: z.string().optional(),
});

/** `/_control/…`: what `Control` does, for a simulator in its own process. No key is asked for. */
export function createControlHttp(control: Control) {
  const routes: Readonly<Record<string, Handler>> = {
    "GET /clock": () => control.clock.read(),
    "POST /clock": (body) => setClock(control, parse(clockBody, body)),
    "GET /faults": () => control.faults.list(),
    "PUT /faults": (body) => {
      control.faults.set(parse(faultBody, body) as unknown as Fault[]);
      return control.faults.list();
    },
    "POST /faults": (body) => {
      control.faults.add(parse(faultBody.element, body) as unknown as Fault);
      return control.faults.list();
    },
    "DELETE /faults": () => {
      control.faults.clear();
      return [];
    },
    "POST /events": (body, query) => appendEvents(control, body, query),
    "POST /traffic": (body) => {
      const { burst, eventsPerSecond } = parse(
        z.strictObject({ burst: z.number().optional(), eventsPerSecond: z.number().optional() }),
        body,
      );
      if (eventsPerSecond !== undefined) control.setLiveRate(eventsPerSecond);
      if (burst !== undefined) control.burst(burst);
      return { events: control.countEvents({ pending: true }) };
    },
    "GET /events/count": (_, query) => ({ count: control.countEvents(filterOf(query)) }),
    "GET /statistics": () => control.statistics(),
    "DELETE /statistics": () => {
      control.resetStatistics();
      return control.statistics();
    },
    "GET /requests": () => control.requests(),
    "POST /key": (body) => ({
      apiKey: control.resetKey(parse(z.strictObject({ key: z.string().optional() }), body).key),
    }),
    "GET /import-jobs": () => control.world.importJobs(),
    "GET /import-jobs/users": (_, query) => control.world.importJobUsers(query.get("job") ?? ""),
    "GET /users": (_, query) => control.world.users(query.get("organization") ?? ""),
    "GET /groups": (_, query) => control.world.groups(query.get("organization") ?? ""),
    "GET /integrations": (_, query) => {
      const organization = query.get("organization") ?? "";
      return {
        importApplication: control.world.importApplication(organization),
        workday: control.world.workday(organization),
      };
    },
    "POST /users": (body) => changeUser(control, parse(userBody, body)),
    "POST /group-members": (body) => {
      const { organization, group, user, member } = parse(memberBody, body);
      control.world.setGroupMember(organization, group, user, member);
      return { group, user, member };
    },
    "POST /systems": (body) => {
      const { organization, ...option } = parse(systemBody, body);
      return control.world.addSystem(organization, option as SystemOption);
    },
    "POST /history-limits": (body) => {
      const { organization, days } = parse(
        z.strictObject({ organization: z.string(), days: z.number().positive().nullable() }),
        body,
      );
      control.limitHistory(organization, days);
      return { organization, days };
    },
    "POST /refusals": (body) => {
      const { organization, status } = parse(
        z.strictObject({ organization: z.string(), status: z.number().nullable() }),
        body,
      );
      control.refuseOrganization(organization, status);
      return { organization, status };
    },
  };

  return async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? "/", "http://control");
    const path = url.pathname.slice("/_control".length);
    try {
      const body = await readBody(request);
      if (request.method === "GET" && path === "/events") {
        response.writeHead(200, { "Content-Type": "application/x-ndjson" });
        return await pipeline(Readable.from(lines(control.allEvents(filterOf(url.searchParams)))), response);
      }
      const handler = routes[`${request.method} ${path}`];
      if (handler === undefined) throw new Problem(404, `There is no ${request.method} ${url.pathname}`);
      send(response, json(200, await handler(body, url.searchParams)));
    } catch (error) {
      send(response, problemAnswer(error));
    }
  };
}

function send(response: ServerResponse, answer: ReturnType<typeof json>): void {
  response.writeHead(answer.status, answer.headers);
  response.end(answer.body);
}

function setClock(control: Control, body: z.infer<typeof clockBody>) {
  if (body.set !== undefined) control.clock.set(body.set);
  if (body.advanceMs !== undefined) control.clock.advance(body.advanceMs);
  if (body.speed !== undefined) control.clock.setSpeed(body.speed);
  if (body.skewMs !== undefined) control.clock.setSkew(body.skewMs);
  return control.clock.read();
}

function changeUser(control: Control, { organization, user, action }: z.infer<typeof userBody>) {
  if (action === "suspend") return control.world.suspendUser(organization, user);
  if (action === "unsuspend") return control.world.unsuspendUser(organization, user);
  control.world.deleteUser(organization, user);
  return { deleted: user };
}

/**
 * A JSON body with objects, or lines of JSON that are kept byte for byte (?organization=…&delayMs=…). With
 * &timestamp=… the whole body is one event, malformed or not, at that place.
 */
function appendEvents(control: Control, body: Buffer, query: URLSearchParams) {
  const organization = query.get("organization");
  if (organization === null) {
    const { organization: id, events, delayMs } = parse(eventsBody, body);
    return { added: control.append(id, events, delayMs) };
  }
  const timestamp = query.get("timestamp");
  if (timestamp !== null) {
    const service = query.get("service") ?? "directory";
    control.appendMalformed(organization, body, {
      timestamp,
      service,
      delayMs: Number(query.get("delayMs") ?? 0),
    });
    return { added: 1 };
  }
  const exact = splitLines(body);
  return { added: control.append(organization, exact, Number(query.get("delayMs") ?? 0)) };
}

function splitLines(body: Buffer): Buffer[] {
  const found: Buffer[] = [];
  for (let at = 0; at < body.length; ) {
    const end = body.indexOf(0x0a, at);
    const line = body.subarray(at, end === -1 ? body.length : end);
    if (line.length > 0) found.push(line);
    at += line.length + 1;
  }
  return found;
}

/** Many events per chunk: one at a time would spend its life in stream bookkeeping. */
function* lines(events: Iterable<Uint8Array>): Generator<Buffer> {
  const newline = Buffer.from("\n");
  let pieces: Uint8Array[] = [];
  let bytes = 0;
  for (const event of events) {
    pieces.push(event, newline);
    bytes += event.length + 1;
    if (bytes < 1 << 18) continue;
    yield Buffer.concat(pieces, bytes);
    pieces = [];
    bytes = 0;
  }
  if (bytes > 0) yield Buffer.concat(pieces, bytes);
}

function filterOf(query: URLSearchParams): { organization?: string; pending?: boolean } {
  const organization = query.get("organization");
  return { ...(organization === null ? {} : { organization }), pending: query.get("pending") === "true" };
}

function parse<T>(schema: z.ZodType<T>, body: Buffer): T {
  let value: unknown;
  try {
    value = JSON.parse(body.length === 0 ? "{}" : body.toString());
  } catch {
    throw new Problem(400, "The body is not JSON");
  }
  const result = schema.safeParse(value);
  if (!result.success) throw new Problem(400, z.prettifyError(result.error));
  return result.data;
}
