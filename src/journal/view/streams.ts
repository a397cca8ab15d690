import type { State } from "../database.ts";

export interface StreamRow {
  readonly id: number;
  readonly account: string;
  readonly provider: string | null;
  readonly organizations: readonly string[];
  readonly services: readonly string[];
}

/** Streams never change and never go, so each is read once. */
export function createStreams(db: State) {
  const newer = db.prepare(
    "SELECT id, account, provider, organizations, services FROM streams WHERE id > ? ORDER BY id",
  );
  const byId = new Map<number, StreamRow>();
  const byOwner = new Map<string, number[]>();
  let lastId = 0;

  function refresh(): void {
    for (const row of newer.iterate(lastId) as Iterable<Record<keyof StreamRow, string>>) {
      const organizations = JSON.parse(row.organizations) as string[];
      const stream: StreamRow = {
        id: Number(row.id),
        account: row.account,
        provider: row.provider as string | null,
        organizations,
        services: JSON.parse(row.services),
      };
      lastId = stream.id;
      byId.set(stream.id, stream);
      for (const owner of organizations.length > 0 ? organizations : [stream.provider ?? ""]) {
        const key = `${stream.account} ${owner}`;
        const ids = byOwner.get(key);
        if (ids === undefined) byOwner.set(key, [stream.id]);
        else ids.push(stream.id);
      }
    }
  }

  return {
    refresh,
    get(id: number): StreamRow | undefined {
      if (id > lastId) refresh();
      return byId.get(id);
    },
    /** The streams that hold an organization, a provider, or (with "") the key's own organization. */
    of(account: string, owner: string): readonly number[] {
      refresh();
      return byOwner.get(`${account} ${owner}`) ?? [];
    },
    all: (): Iterable<StreamRow> => {
      refresh();
      return byId.values();
    },
  };
}
