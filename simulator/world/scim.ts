import { request } from "undici";
import type { Outbound } from "./applications.ts";
import type { User } from "./user.ts";

/** The SCIM 2.0 calls that provisioning makes. A refusal is thrown as `ScimError`. */
export interface Scim {
  /** Creates the user, or takes over one of the same name; returns the endpoint's id of it. */
  create(outbound: Outbound, user: User): Promise<string>;
  replace(outbound: Outbound, remote: string, user: User): Promise<string>;
  deactivate(outbound: Outbound, remote: string): Promise<void>;
}

export class ScimError extends Error {
  readonly retryable: boolean;

  constructor(what: string, status: number) {
    super(`The SCIM endpoint answered ${status} when ${what}`);
    this.retryable = status === 429 || status >= 500;
  }
}

const timeoutMs = 10_000;

export function createScim(signal: AbortSignal): Scim {
  async function call(
    outbound: Outbound,
    method: "GET" | "POST" | "PUT" | "PATCH",
    path: string,
    body?: unknown,
  ) {
    const response = await request(outbound.url + path, {
      method,
      headers: {
        accept: "application/scim+json",
        ...(outbound.token === "" ? {} : { authorization: `Bearer ${outbound.token}` }),
        ...(body === undefined ? {} : { "content-type": "application/scim+json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal,
      headersTimeout: timeoutMs,
      bodyTimeout: timeoutMs,
    });
    return { status: response.statusCode, body: parseObject(await response.body.text()) };
  }

  async function lookUp(outbound: Outbound, user: User): Promise<string> {
    const filter = encodeURIComponent(`userName eq ${JSON.stringify(user.username)}`);
    const { status, body } = await call(outbound, "GET", `/Users?filter=${filter}`);
    const found = (body.Resources as { id?: unknown }[] | undefined)?.[0]?.id;
    if (typeof found !== "string") {
      throw new ScimError("finding a user that exists already", status === 200 ? 409 : status);
    }
    return found;
  }

  async function replace(outbound: Outbound, remote: string, user: User): Promise<string> {
    const { status } = await call(outbound, "PUT", pathOf(remote), { ...scimUser(user), id: remote });
    if (status >= 300) throw new ScimError("updating a user", status);
    return remote;
  }

  return {
    async create(outbound, user) {
      const { status, body } = await call(outbound, "POST", "/Users", scimUser(user));
      if (status === 409) return replace(outbound, await lookUp(outbound, user), user);
      if (status >= 300 || typeof body.id !== "string") throw new ScimError("creating a user", status);
      return body.id;
    },
    replace,
    async deactivate(outbound, remote) {
      const { status } = await call(outbound, "PATCH", pathOf(remote), {
        schemas: ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
        Operations: [{ op: "replace", path: "active", value: false }],
      });
      // A user that is not there any more is as absent as it was meant to be.
      if (status !== 404 && status >= 300) throw new ScimError("deactivating a user", status);
    },
  };
}

function pathOf(remote: string): string {
  return `/Users/${encodeURIComponent(remote)}`;
}

function scimUser(user: User) {
  return {
    schemas: ["urn:ietf:params:scim:schemas:core:2.0:User"],
    externalId: user.id,
    userName: user.username,
    name: { givenName: user.firstname, familyName: user.lastname },
    emails: [{ value: user.email, primary: true, type: "work" }],
    displayName: `${user.firstname} ${user.lastname}`,
    active: true,
  };
}

function parseObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
