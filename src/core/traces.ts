import { context, type Span, SpanStatusCode, type Tracer, trace } from "@opentelemetry/api";
import type { Journal, JournalReader, PageCommit } from "./journal.ts";
import type { LeasedBytes } from "./page-lease.ts";
import type { Position } from "./position.ts";
import type { PreparedPage } from "./prepare-page.ts";
import { type Batch, type Sink, type SinkDefinition, totalsOf } from "./sink.ts";

const PAGES_MAX = 1000;
const LINKS_MAX = 64;

interface TracedPage {
  body(): Promise<LeasedBytes>;
  discard(): void;
}
interface TracedPreparer {
  prepare(body: LeasedBytes, ...rest: never[]): Promise<PreparedPage>;
}
interface TracedSource<Args extends readonly unknown[], Page extends TracedPage> {
  events(...args: Args): Promise<Page>;
}

/**
 * The trace of a page, from the request to the last reader's commit. The parts know nothing of it: the
 * composition root puts these wrappers around the source, the journal and the sinks.
 *
 * `page` is the whole; below it `source.request`, `source.body`, `page.prepare`, `journal.append`, and for every reader a
 * `deliver` from the append to the commit that passes the page's last event. `sink.write` holds a batch and
 * is linked to the deliveries it serves, since a batch may hold many pages and a page many batches.
 */
export function createTraces(tracer: Tracer) {
  /** A page's bytes are what request and append have in common. */
  const roots = new WeakMap<Buffer, Span>();
  const readers = new Set<string>();
  const pages = new Map<number, { root: Span; events: number; deliveries: Map<string, Span> }>();

  function source<Args extends readonly unknown[], Page extends TracedPage>(
    account: string,
    traced: TracedSource<Args, Page>,
  ): (...args: Args) => Promise<Page> {
    return async (...args) => {
      const root = tracer.startSpan("page", { root: true, attributes: { "tidemark.account": account } });
      const page = await inside(root, "source.request", () => traced.events(...args)).catch((error) => {
        root.end();
        throw error;
      });
      return {
        ...page,
        async body() {
          const body = await inside(root, "source.body", () => page.body());
          roots.set(body.bytes, root);
          return body;
        },
        discard() {
          page.discard();
          root.end();
        },
      };
    };
  }

  /** Another thread may have given the bytes back in other memory: the trace goes on with those. */
  function preparer<P extends TracedPreparer>(traced: P): P {
    const prepare = async (body: LeasedBytes, ...rest: never[]) => {
      const root = roots.get(body.bytes);
      if (root === undefined) return traced.prepare(body, ...rest);
      const page = await inside(root, "page.prepare", () => traced.prepare(body, ...rest)).catch((error) => {
        root.end();
        throw error;
      });
      roots.set(page.scanned.bytes as Buffer, root);
      return page;
    };
    return { ...traced, prepare };
  }

  async function append(journal: Journal, commit: PageCommit) {
    const root =
      roots.get(commit.page.scanned.bytes as Buffer) ??
      tracer.startSpan("page", { root: true, attributes: { "tidemark.account": commit.account } });
    const appended = await inside(root, "journal.append", () => journal.append(commit)).catch((error) => {
      root.end();
      throw error;
    });
    root.setAttributes({
      "tidemark.page": appended.page ?? 0,
      "tidemark.events.fresh": appended.fresh,
      "tidemark.events.known": appended.known,
    });
    if (appended.page === null || !root.isRecording()) root.end();
    else follow(appended.page, appended.fresh, root, commit.reader);
    return appended;
  }

  function follow(page: number, events: number, root: Span, only: string | null): void {
    const wanted = only === null ? [...readers] : [only];
    const deliveries = new Map(
      wanted.map((reader) => [reader, child(root, "deliver", { "tidemark.reader": reader })]),
    );
    if (deliveries.size === 0) {
      root.end();
      return;
    }
    pages.set(page, { root, events, deliveries });
    if (pages.size <= PAGES_MAX) return;
    const [oldest, left] = pages.entries().next().value!;
    for (const span of left.deliveries.values()) span.setAttribute("tidemark.unfinished", true).end();
    left.root.end();
    pages.delete(oldest);
  }

  function committed(reader: string, position: Position): void {
    for (const [number, page] of pages) {
      if (number > position.page || (number === position.page && position.event < page.events)) break;
      page.deliveries.get(reader)?.end();
      page.deliveries.delete(reader);
      if (page.deliveries.size > 0) continue;
      page.root.end();
      pages.delete(number);
    }
  }

  function tracedReader(reader: JournalReader): JournalReader {
    readers.add(reader.name);
    return {
      name: reader.name,
      get position() {
        return reader.position;
      },
      get state() {
        return reader.state;
      },
      get bounds() {
        return reader.bounds;
      },
      read: (after) => reader.read(after),
      hasMore: (after) => reader.hasMore(after),
      async commit(position, state, delivered) {
        await reader.commit(position, state, delivered);
        committed(reader.name, position);
      },
      setBounds: (bounds, state) => reader.setBounds(bounds, state),
      addDeadLetters: (letters) => reader.addDeadLetters(letters),
      deadLettersAfter: (position) => reader.deadLettersAfter(position),
      holds: (position) => reader.holds(position),
      reaches: (position) => reader.reaches(position),
    };
  }

  function tracedSink(name: string, sink: Sink): Sink {
    // Everything else is the sink's own: delivery looks at what it has, such as `position` and `writesMax`.
    return Object.assign(Object.create(sink) as Sink, {
      write(batch: Batch, signal: AbortSignal) {
        const links = [];
        for (let page = batch.from.page; page <= batch.to.page && links.length < LINKS_MAX; page++) {
          const delivery = pages.get(page)?.deliveries.get(name);
          if (delivery !== undefined) links.push({ context: delivery.spanContext() });
        }
        const span = tracer.startSpan("sink.write", {
          root: true,
          links,
          attributes: { "tidemark.sink": name, "tidemark.records": totalsOf(batch).count },
        });
        return ended(span, sink.write(batch, signal));
      },
    });
  }

  function child(root: Span, name: string, attributes: Record<string, string> = {}): Span {
    return tracer.startSpan(name, { attributes }, trace.setSpan(context.active(), root));
  }

  function inside<T>(root: Span, name: string, work: () => Promise<T>): Promise<T> {
    return ended(child(root, name), work());
  }

  return {
    /** `events` of a source, traced; to be put in the place of the original's. */
    source,
    /** The preparer, traced. */
    preparer,
    /** The journal, and the readers it opens, traced. */
    journal: <J extends Journal>(journal: J): J => ({
      ...journal,
      append: (commit: PageCommit) => append(journal, commit),
      reader: async (name: string) => tracedReader(await journal.reader(name)),
    }),
    /** A sink's definition whose writes are traced under the sink's name. */
    sink: (name: string, definition: SinkDefinition): SinkDefinition => ({
      ...definition,
      open: async (opening) => tracedSink(name, await definition.open(opening)),
    }),
  };
}

export type Traces = ReturnType<typeof createTraces>;

/** The error's name is enough: messages may hold what belongs into the log alone. */
function ended<T>(span: Span, work: Promise<T>): Promise<T> {
  return work.then(
    (result) => {
      span.end();
      return result;
    },
    (error: unknown) => {
      span.setStatus({
        code: SpanStatusCode.ERROR,
        message: error instanceof Error ? error.name : "unknown",
      });
      span.end();
      throw error;
    },
  );
}
