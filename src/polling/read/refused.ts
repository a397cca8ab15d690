import type { PollContext } from "../context.ts";

export const REFUSED_RETRY_MS = 3_600_000;

export function raiseRefused({ alarms }: PollContext, subject: string, message: string): void {
  alarms.raise({
    kind: "organization_refused",
    subject,
    message,
    remedy:
      "Check the id, the key's role and whether Insights is enabled for this organization; it is tried again every hour.",
    severity: "warning",
  });
}
