const GROUP_MAX = 300;

/**
 * The reason without the parts that differ from event to event (quoted values, ids, numbers), so that equal
 * refusals fall into one group. A destination may quote values of the event, so logs and callers without a token get
 * this form.
 */
export function reasonGroupOf(reason: string): string {
  return reason
    .replace(/"[^"]*"|'[^']*'/g, '"…"')
    .replace(/\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b(?=[0-9a-f]*\d)[0-9a-f]{16,}\b/gi, "…")
    .replace(/\d{4}-\d\d-\d\dT[0-9:.]+Z?/g, "…")
    .replace(/(?<!^|answered |HTTP |code )\b\d{2,}\b/g, "…")
    .slice(0, GROUP_MAX);
}
