import { createTokenCodec } from "../../query/token.ts";
import { answerInsights, type InsightsAnswer } from "../insights/answer.ts";
import type { ServiceOptions } from "./options.ts";
import { answerPage, type PageQuestion } from "./page.ts";
import { json } from "./reply.ts";

export type ServiceRequest =
  | {
      readonly kind: "insights";
      readonly operation: string;
      readonly owners: readonly string[];
      readonly body: unknown;
    }
  | { readonly kind: "owners" }
  | { readonly kind: "sync" }
  | ({ readonly kind: "page" } & PageQuestion);

/** Questions about everything that is held. In the exporter it is a client of a process of its own. */
export interface SearchService {
  answer(request: ServiceRequest, signal: AbortSignal): Promise<InsightsAnswer>;
}

export function createSearchService(options: ServiceOptions): SearchService {
  const { search, scanMax, nowMs } = options;
  const tokens = createTokenCodec(options.cursorSecret);
  let owners: { readonly key: string; readonly list: readonly string[] } | undefined;

  /** The owners that occur; looked up again when the files of the index have changed. */
  async function ownersOf(signal: AbortSignal): Promise<readonly string[]> {
    const { parts, pages } = await search.sync(signal);
    const key = [...parts, ...pages].map(({ name }) => name).join();
    if (owners?.key === key) return owners.list;
    const list = await search.query(signal, async (connection, snapshot) => {
      const source = snapshot.source(undefined, undefined);
      if (source === null) return [];
      const reader = await connection.runAndReadAll(`SELECT DISTINCT organization FROM ${source}`);
      return reader.getRows().map(([owner]) => String(owner));
    });
    owners = { key, list };
    return list;
  }

  return {
    async answer(request, signal) {
      switch (request.kind) {
        case "insights":
          return answerInsights({ search, tokens, scanMax, nowMs }, request, signal);
        case "owners":
          return json(await ownersOf(signal), 0);
        case "sync": {
          const { parts, pages } = await search.sync(signal);
          return json({ parts: parts.length, pages: pages.length }, 0);
        }
        case "page":
          return answerPage(options, request, signal);
      }
    },
  };
}
