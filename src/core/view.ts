import type { ArchivesView } from "./view/archives.ts";
import type { DeadLetterBodyView, DeadLettersQuery, DeadLettersView } from "./view/dead-letters.ts";
import type { DriftView, RecentView } from "./view/events.ts";
import type { GapsQuery, GapsView } from "./view/gaps.ts";
import type { OrganizationsQuery, OrganizationsView } from "./view/organizations.ts";
import type { SinksView, SinkView } from "./view/sinks.ts";
import type { AlarmView, RatesView, StatusView } from "./view/status.ts";
import type { CalendarView, WindowsQuery, WindowsView } from "./view/windows.ts";

/**
 * The state of the program as the server, the page and `tidemark status` see it; they read nothing else.
 * The schemas in view/ describe JSON; times are milliseconds since the epoch and end in Ms.
 */
export interface View {
  status(): Promise<StatusView>;
  /** Events a second, as far back as the running process remembers. */
  rates(): RatesView;
  organizations(query: OrganizationsQuery): Promise<OrganizationsView>;
  /** Every account's days, newest last. */
  calendar(): Promise<CalendarView>;
  /** One organization's days and windows; undefined when it is unknown. */
  windows(query: WindowsQuery): Promise<WindowsView | undefined>;
  /** What is missing, oldest first, with the sums of all that the query finds. */
  gaps(query: GapsQuery): Promise<GapsView>;
  sinks(): Promise<SinksView>;
  archives(): Promise<ArchivesView>;
  deadLetters(query: DeadLettersQuery): Promise<DeadLettersView>;
  /** One with its event's exact bytes, as text. */
  deadLetter(id: number): Promise<DeadLetterBodyView | undefined>;
  drift(limit: number): Promise<DriftView>;
  /** The newest events of the journal, without their contents, oldest first; those after a page number. */
  recent(afterPage: number, limit: number): Promise<RecentView>;
}

/** State that only the running process has. */
export interface LiveView {
  readonly startedMs: number;
  alarms(): readonly AlarmView[];
  accounts(): readonly LiveAccount[];
  deliveries(): readonly LiveDelivery[];
  rates(): RatesView;
}

export interface LiveAccount {
  readonly name: string;
  readonly pausedUntilMs: number | null;
  readonly clockOffsetMs: number;
  readonly polledMs: number | null;
  readonly overdueMs: number;
  readonly pace: {
    readonly concurrency: number;
    readonly running: number;
    readonly rate: number;
    readonly requests: number;
    readonly refused: number;
    readonly pausedUntilMs: number;
  };
}

export interface LiveDelivery {
  readonly name: string;
  readonly state: SinkView["state"];
  readonly sinceMs: number;
  readonly reason: string | null;
  readonly remedy: string | null;
  readonly sentEvents: number;
  readonly lastWriteMs: number | null;
}
