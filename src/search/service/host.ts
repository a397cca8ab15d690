import { once } from "node:events";
import { explain, UsageError } from "../../core/errors.ts";
import { encodeMessage, messagesOf } from "./frames.ts";
import type { SearchService, ServiceRequest } from "./service.ts";

/** Answers the questions of the exporter until its end of the pipe is closed. */
export async function hostService(
  service: SearchService,
  input: NodeJS.ReadableStream,
  output: NodeJS.WritableStream,
  signal: AbortSignal,
): Promise<void> {
  const running = new Map<number, AbortController>();

  async function answer(id: number, request: ServiceRequest): Promise<void> {
    const stop = new AbortController();
    running.set(id, stop);
    try {
      const { status, headers, body, events } = await service.answer(
        request,
        AbortSignal.any([signal, stop.signal]),
      );
      await send({ id, status, headers, events }, body);
    } catch (error) {
      await send({ id, error: explain(error), isUsage: error instanceof UsageError });
    } finally {
      running.delete(id);
    }
  }

  async function send(head: object, body?: Buffer): Promise<void> {
    let isFree = true;
    for (const piece of encodeMessage(head, body)) isFree = output.write(piece);
    if (!isFree) await once(output, "drain");
  }

  for await (const { head } of messagesOf(input)) {
    const { id, cancel, request } = head as { id: number; cancel?: boolean; request?: ServiceRequest };
    if (cancel) running.get(id)?.abort(new Error("The question was withdrawn."));
    else void answer(id, request!);
  }
  for (const stop of running.values()) stop.abort(new Error("The exporter has ended."));
}
