import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type Archive, type ArchiveOptions, openArchive } from "../../src/archive/archive.ts";
import { newSignerText, parseSigner } from "../../src/archive/log/note.ts";
import { openDirectory } from "../../src/archive/store/directory.ts";
import type { ArchiveStore } from "../../src/archive/store/store.ts";
import { type Verification, type VerifyOptions, verifyArchive } from "../../src/archive/verify/verify.ts";
import type { ArchiveState } from "../../src/core/archive.ts";
import { type BufferPool, createBufferPool } from "../../src/core/buffer-pool.ts";
import type { Clock } from "../../src/core/clock.ts";
import { DAY_MS } from "../../src/core/time.ts";
import { type NewWindow, newWindow } from "../../src/core/window.ts";
import { openArchiveState } from "../../src/journal/archive/state.ts";
import { type JournalFixture, openFixture } from "../journal/support.ts";
import { type EventFields, eventText, pageOf } from "../support/pages.ts";

export const ORIGIN = "example.com/archive";
export const RETENTION_MS = 90 * DAY_MS;
const SETTLE_MS = 2 * DAY_MS;
export const DAY = "2026-03-10";
export const A = "aaaaaaaaaaaaaaaaaaaaaaaa";
export const B = "bbbbbbbbbbbbbbbbbbbbbbbb";
export const C = "cccccccccccccccccccccccc";
export const never = new AbortController().signal;

/** A journal and an archive of it, with a clock that the test sets. */
export interface World extends JournalFixture {
  readonly storeFolder: string;
  readonly store: ArchiveStore;
  readonly state: ArchiveState;
  readonly archive: Archive;
  readonly key: string;
  /** Of the pages that the archive reads. A late look at one finds no event. */
  readonly pageMemory: BufferPool;
  nowMs: number;
  /** Events of one organization and day, `count` of them from number `from` on, as one page. */
  events(
    organization: string,
    day: string,
    from: number,
    count: number,
    fields?: EventFields,
  ): Promise<string[]>;
  /** The day of these organizations is sealed; the service gave so many events. */
  seal(
    organizations: readonly string[],
    day: string,
    count: number,
    more?: Partial<NewWindow>,
    looks?: number,
  ): Promise<void>;
  /** Runs the archive until there is nothing left to do. */
  closeAll(): Promise<void>;
  verify(options?: Partial<VerifyOptions>): Promise<Verification>;
  /** `through` wraps the state and the store. */
  restart(
    options?: Partial<ArchiveOptions>,
    through?: <Target extends object>(target: Target) => Target,
  ): Promise<void>;
  end(): void;
}

export interface WorldOptions extends Partial<ArchiveOptions> {
  openStore?(folder: string): Promise<ArchiveStore>;
}

export async function openWorld(options: WorldOptions = {}): Promise<World> {
  let nowMs = Date.parse(DAY) + 20 * DAY_MS;
  const clock: Clock = { now: () => nowMs, sleep: async () => {} };
  const fixture = openFixture(clock);
  const storeFolder = join(fixture.folder, "archive");
  mkdirSync(storeFolder);
  const signer = options.signer ?? parseSigner(newSignerText(ORIGIN));
  const { openStore = openDirectory, ...rest } = options;
  let store = await openStore(storeFolder);
  let current: ArchiveOptions = {
    origin: ORIGIN,
    signer,
    settleMs: SETTLE_MS,
    classOf: () => "default",
    policy: '{"keep":"7y"}',
    workFolder: join(fixture.folder, "work"),
    ...rest,
  };
  const pageMemory = createBufferPool({ poison: true });
  const openState = () =>
    openArchiveState(fixture.db, {
      name: "evidence",
      journal: fixture.journal.id,
      retentionMs: RETENTION_MS,
      stagingFolder: join(fixture.folder, "staging"),
      memory: pageMemory,
    });
  let state = await openState();
  let archive = await openArchive(state, store, clock, current, never);

  return {
    ...fixture,
    get db() {
      return fixture.db;
    },
    get journal() {
      return fixture.journal;
    },
    storeFolder,
    get store() {
      return store;
    },
    get state() {
      return state;
    },
    get archive() {
      return archive;
    },
    key: signer.verifier.text,
    pageMemory,
    get nowMs() {
      return nowMs;
    },
    set nowMs(value: number) {
      nowMs = value;
    },
    async events(organization, day, from, count, fields = {}) {
      const start = Date.parse(day);
      const texts = Array.from({ length: count }, (_, at) =>
        eventText(from + at, {
          organization,
          timestamp: new Date(start + (from + at) * 1000).toISOString().replace("Z", "123456Z"),
          ...fields,
        }),
      );
      await fixture.journal.append(pageOf(texts, { organizations: [organization], fetchedAtMs: nowMs }));
      return texts;
    },
    async seal(organizations, day, count, more = {}, looks = 2) {
      const stream = await fixture.journal.stream({
        account: "acme",
        provider: null,
        organizations,
        services: ["all"],
      });
      const fromMs = Date.parse(day);
      const sealed = {
        state: "sealed",
        askedMs: fromMs + DAY_MS + 1000,
        sweeps: 3,
        apiCount: count,
        heldCount: count,
      } as const;
      await fixture.journal.changeWindows({
        add: [newWindow(stream, fromMs, fromMs + DAY_MS, { ...sealed, ...more })],
      });
      fixture.db.prepare("UPDATE windows SET looks = ? WHERE id = (SELECT MAX(id) FROM windows)").run(looks);
    },
    async closeAll() {
      for (let turn = 0; turn < 1000; turn++) if ((await archive.closeStep(never)) === "idle") return;
      throw new Error("Closing does not come to an end.");
    },
    verify: (more = {}) => verifyArchive(store, { key: signer.verifier, nowMs, ...more }),
    async restart(changed = {}, through = (target) => target) {
      fixture.reopen();
      store = through(await openStore(storeFolder));
      state = through(await openState());
      current = { ...current, ...changed };
      archive = await openArchive(state, store, clock, current, never);
    },
    end: () => fixture.close(),
  };
}
