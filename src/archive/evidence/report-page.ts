/* The HTML of the auditor's report: one file without scripts, which also prints well. */

const STYLE = `
body{font:15px/1.5 system-ui,sans-serif;color:#1a1a1a;background:#fff;max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem;margin:0}h2{font-size:1.15rem;margin:2rem 0 .5rem;border-bottom:1px solid #ccc}h3{font-size:1rem;margin:1rem 0 .3rem}
table{border-collapse:collapse;width:100%;font-size:.9rem}th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid #e5e5e5;vertical-align:top;overflow-wrap:anywhere}
th,td.short{white-space:nowrap}td.number,th.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
tr.total td{font-weight:600;border-top:2px solid #999}
pre{background:#f5f5f5;border:1px solid #e5e5e5;padding:.8rem;overflow-wrap:anywhere;white-space:pre-wrap;font-size:.8rem}
dl{margin:.5rem 0;font-size:.9rem}dt{font-weight:600;float:left;clear:left;width:7rem}dd{margin:0 0 .2rem 7.5rem}
.good,.bad{font-weight:600;font-size:1.1rem;padding:.4rem .8rem;border-left:.4rem solid}.good{color:#0a6b2d}.bad{color:#a31515}
.note{color:#555;font-size:.9rem}
@page{margin:15mm}
@media print{html{font-size:11px}body{margin:0;padding:0;max-width:none;font-size:1rem}h2,h3{break-after:avoid}tr,pre,dl{break-inside:avoid}thead{display:table-header-group}}
`;

export function reportPage(title: string, subtitle: string, sections: readonly string[]): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Archive report: ${escaped(title)}</title>
<style>${STYLE}</style></head><body>
<h1>${escaped(title)}</h1><p class="note">${escaped(subtitle)}</p>
${sections.join("\n")}
</body></html>
`;
}

export function section(title: string, ...body: readonly string[]): string {
  return `<section><h2>${escaped(title)}</h2>${body.join("")}</section>`;
}

export function paragraph(text: string, kind = ""): string {
  return `<p${kind && ` class="${kind}"`}>${escaped(text)}</p>`;
}

export function heading(text: string): string {
  return `<h3>${escaped(text)}</h3>`;
}

export function listing(text: string): string {
  return `<pre>${escaped(text)}</pre>`;
}

export function definitions(list: Readonly<Record<string, string>>): string {
  const items = Object.entries(list).map(
    ([term, text]) => `<dt>${escaped(term)}</dt><dd>${escaped(text)}</dd>`,
  );
  return `<dl>${items.join("")}</dl>`;
}

/** Numbers are set to the right. The last row is a total where `total` is given. */
export function table(
  head: readonly string[],
  rows: readonly (readonly (string | number)[])[],
  total?: readonly (string | number)[],
): string {
  const first = rows[0] ?? total ?? [];
  const kind = (at: number) => (typeof first[at] === "number" ? ' class="number"' : "");
  const cells = (tag: string, values: readonly (string | number)[], row = "") =>
    `<tr${row}>${values.map((value, at) => `<${tag}${kind(at) || short(value)}>${escaped(textOf(value))}</${tag}>`).join("")}</tr>`;
  const body = rows.map((row) => cells("td", row)).join("");
  const end = total === undefined ? "" : cells("td", total, ' class="total"');
  return `<table><thead>${cells("th", head)}</thead><tbody>${body}${end}</tbody></table>`;
}

/** Times, days and words are not broken; only long text is. */
function short(value: string | number): string {
  return typeof value === "string" && value.length <= 24 ? ' class="short"' : "";
}

function textOf(value: string | number): string {
  return typeof value === "number" ? countText(value) : value;
}

export function countText(value: number): string {
  return value.toLocaleString("en-US");
}

/** 2026-11-16T03:48:58.102Z as 2026-11-16 03:48:58 UTC. */
export function momentText(text: string): string {
  return text.replace(/^([\d-]{10})T([\d:]{8})(\.\d+)?Z$/, "$1 $2 UTC");
}

/** Tables have at most so many rows. */
export const ROWS_MAX = 200;

export function shownText(count: number, what: string): string {
  return count > ROWS_MAX ? paragraph(`${countText(count)} ${what}; ${ROWS_MAX} of them are listed.`) : "";
}

function escaped(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}
