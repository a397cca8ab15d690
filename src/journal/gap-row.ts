import type { Gap, GapReason } from "../core/gap.ts";
import type { Stream } from "../core/window.ts";

export interface GapRow {
  readonly id: number;
  readonly account: string;
  readonly provider: string | null;
  readonly organization: string;
  readonly services: string;
  readonly from_ms: number;
  readonly to_ms: number;
  readonly reason: GapReason;
  readonly detail: string;
  readonly events: number | null;
  readonly found_ms: number;
  readonly came_ms: number | null;
}

export function gapOfRow(row: GapRow): Gap {
  return {
    id: row.id,
    account: row.account,
    provider: row.provider,
    organization: row.organization === "" ? null : row.organization,
    services: JSON.parse(row.services) as string[],
    fromMs: row.from_ms,
    toMs: row.to_ms,
    reason: row.reason,
    detail: row.detail,
    events: row.events,
    foundMs: row.found_ms,
    cameMs: row.came_ms,
    open: false,
    nextMs: null,
  };
}

export function organizationsOf({ organizations }: Stream): readonly string[] {
  return organizations.length === 0 ? [""] : organizations;
}

export function servicesText({ services }: Stream): string {
  return JSON.stringify([...services].sort());
}

/** Whether the stream reads every service that the gap is about. */
export function asksFor({ services }: Stream, row: GapRow): boolean {
  return (JSON.parse(row.services) as string[]).every((service) => services.includes(service));
}
