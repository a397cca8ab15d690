import type { PollContext } from "../context.ts";
import { fetchPage, type PageRequest, type Served, servedOf } from "./fetch-page.ts";
import { UnreadablePageError } from "./source.ts";

/** Whether a page fails because of its content, so that a smaller one may succeed. */
export function isBadContent(context: PollContext, error: unknown): boolean {
  if (error instanceof UnreadablePageError) return true;
  const { kind } = context.source.fault(error);
  return kind === "body_too_large" || kind === "no_room";
}

/**
 * Asks for a page while another one of the window is held; an error of its content is a value, with the token that leads
 * past it. Where the stream is a troubled one, the page that is held has its place.
 */
export async function tried(
  context: PollContext,
  request: PageRequest,
): Promise<
  { readonly served: Served } | { readonly searchAfter: string | undefined; readonly error: unknown }
> {
  const { query, priority, signal } = request;
  const release = await context.gate.enter(query.limit, priority, signal);
  const fetched = await fetchPage(context, request, release);
  try {
    return { served: await servedOf(context, request, fetched.page) };
  } catch (error) {
    if (!isBadContent(context, error)) throw error;
    return { searchAfter: fetched.page.head.searchAfter, error };
  } finally {
    fetched.release();
  }
}
