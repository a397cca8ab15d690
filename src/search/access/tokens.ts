import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { UsageError } from "../../core/errors.ts";

/*
 * Tokens for the Insights interface and the search of the page. One file for each, beside the state file, so that
 * a running process sees changes at once. A file has the SHA-256 of the secret, never the secret itself.
 */
export const RIGHTS = ["insights", "search"] as const;
export type Right = (typeof RIGHTS)[number];

const tokenSchema = z.strictObject({
  id: z.string(),
  name: z.string(),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  /** Organizations in lower case, or `provider:ID`; null for all. */
  organizations: z.array(z.string()).nullable(),
  rights: z.array(z.enum(RIGHTS)),
  createdMs: z.number(),
  expiresMs: z.number().nullable(),
  revokedMs: z.number().nullable(),
});
export type Token = z.output<typeof tokenSchema>;

export interface SearchTokens {
  list(): Token[];
  /** The secret is given here and nowhere else. */
  create(token: Pick<Token, "name" | "organizations" | "rights" | "expiresMs">): {
    secret: string;
    token: Token;
  };
  revoke(nameOrId: string): Token;
  /** The valid token with this secret. */
  admit(secret: string): Token | undefined;
}

const SECRET_PREFIX = "tmk_";
const REREAD_MS = 1000;

export function openTokens(folder: string, nowMs: () => number): SearchTokens {
  let read: { readonly tokens: readonly Token[]; readonly atMs: number } | undefined;

  function write(token: Token): void {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const path = join(folder, `${token.id}.json`);
    writeFileSync(`${path}.new`, `${JSON.stringify(token, null, 2)}\n`, { mode: 0o600, flush: true });
    renameSync(`${path}.new`, path);
    read = undefined;
  }

  function list(): Token[] {
    return namesIn(folder)
      .map((name) => {
        const path = join(folder, name);
        const parsed = tokenSchema.safeParse(json(path));
        if (parsed.success) return parsed.data;
        throw new UsageError(`The token file ${path} is damaged: remove it and make a new token.`);
      })
      .sort((a, b) => a.createdMs - b.createdMs);
  }

  /** Read again after a second, so that a revoked token ends soon and a request costs little. */
  function current(): readonly Token[] {
    if (read === undefined || Math.abs(nowMs() - read.atMs) > REREAD_MS)
      read = { tokens: list(), atMs: nowMs() };
    return read.tokens;
  }

  const isValid = ({ expiresMs, revokedMs }: Token) =>
    revokedMs === null && (expiresMs === null || expiresMs > nowMs());

  return {
    list,
    create(wanted) {
      if (list().some(({ name, revokedMs }) => name === wanted.name && revokedMs === null))
        throw new UsageError(`There is a token "${wanted.name}" already: choose another name, or revoke it.`);
      const secret = `${SECRET_PREFIX}${randomBytes(32).toString("base64url")}`;
      const token: Token = {
        id: randomBytes(6).toString("hex"),
        ...wanted,
        sha256: hash("sha256", secret, "hex"),
        createdMs: nowMs(),
        revokedMs: null,
      };
      write(token);
      return { secret, token };
    },
    revoke(nameOrId) {
      const found = list().find(
        ({ id, name, revokedMs }) => revokedMs === null && (id === nameOrId || name === nameOrId),
      );
      if (found === undefined)
        throw new UsageError(`There is no valid token "${nameOrId}": see \`tidemark tokens list\`.`);
      const revoked = { ...found, revokedMs: nowMs() };
      write(revoked);
      return revoked;
    },
    admit(secret) {
      const digest = Buffer.from(hash("sha256", secret, "hex"), "hex");
      let found: Token | undefined;
      // All are compared, so that the time says nothing about a match.
      for (const token of current())
        if (timingSafeEqual(digest, Buffer.from(token.sha256, "hex")) && isValid(token)) found = token;
      return found;
    },
  };
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => /^[0-9a-f]{12}\.json$/.test(name));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

function json(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    return undefined;
  }
}

/** Whether a token may see an owner: an organization in lower case, or `provider:ID`. */
export function maySee({ organizations }: Pick<Token, "organizations">, owner: string): boolean {
  return organizations === null || organizations.includes(owner);
}
