import type { PollContext } from "../context.ts";
import { fetchPage, type PageRequest, type Served, servedOf } from "./fetch-page.ts";
import { UnreadablePageError } from "./source.ts";

/** Whether a page fails because of its content, so that a smaller one may succeed. */
export function isBadContent(context: PollContext, error: unknown): boolean {
  if (error instanceof UnreadablePageError) return true;
  const { kind } = context.source.fault(error);
  return kind === "body_too_large" || kind === "no_room";
}

/** Asks for a page; an error of its content is a value, with the token that leads past it. */
export async function tried(
  context: PollContext,
  request: PageRequest,
): Promise<
  { readonly served: Served } | { readonly searchAfter: string | undefined; readonly error: unknown }
> {
  const fetched = await fetchPage(context, request);
  try {
    return { served: await servedOf(context, request, fetched.page) };
  } catch (error) {
    if (!isBadContent(context, error)) throw error;
    return { searchAfter: fetched.page.head.searchAfter, error };
  } finally {
    fetched.release();
  }
}
