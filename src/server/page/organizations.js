import { get } from "./api.js";
import { byId, h, say, set } from "./dom.js";
import { ago, brief, duration, number } from "./format.js";

const ROW_PX = 48;
const CHUNK = 100;
const SPARE_ROWS = 6;
const ROWS_SHOWN = 10;
const HISTORY = " · history";
const ROWS_SHOWN_MIN = 3;

/**
 * The list of organizations. Only the visible rows exist and only their chunks are requested, so that ten
 * thousand organizations cost as much as twenty.
 * @param {(row: object) => void} onOpen
 * @param {(view: object) => void} onLoad
 */
export function createOrganizations(onOpen, onLoad) {
  const box = byId("rows");
  const space = h("div", { class: "space", role: "presentation" });
  const pool = [];
  let chunks = new Map();
  let matched = 0;
  let incomplete;
  let generation = 0;
  let query = { search: "", sort: "lag", problems: "false" };
  let active = 0;
  let nowMs = Date.now();
  box.append(space);

  async function load(chunk) {
    if (chunks.has(chunk)) return;
    const own = generation;
    chunks.set(chunk, null);
    try {
      const view = await get(`/api/organizations?${parameters(chunk)}`);
      if (own !== generation) return;
      take(chunk, view);
    } catch {
      if (own === generation) chunks.delete(chunk);
    }
  }

  const parameters = (chunk) => new URLSearchParams({ ...query, offset: chunk * CHUNK, limit: CHUNK });

  function take(chunk, view) {
    chunks.set(chunk, view.rows);
    matched = view.matched;
    incomplete = view.incomplete;
    onLoad(view);
    const some = (query.search.trim() !== "" || query.problems === "true") && matched !== view.total;
    say(byId("problems-label"), `Only problems (${number(view.problems)})`);
    say(
      byId("organizations-count"),
      some ? `${number(matched)} of ${number(view.total)}` : number(view.total),
    );
    render();
  }

  function inSight() {
    const first = Math.max(0, Math.floor(box.scrollTop / ROW_PX) - SPARE_ROWS);
    const count = Math.ceil((box.clientHeight || 480) / ROW_PX) + 2 * SPARE_ROWS;
    return { first, last: Math.min(matched, first + count) };
  }

  function render() {
    space.style.height = `${Math.max(matched, 1) * ROW_PX}px`;
    box.style.height = `${Math.max(ROWS_SHOWN_MIN, Math.min(ROWS_SHOWN, matched)) * ROW_PX}px`;
    box.dataset.empty =
      matched === 0 && chunks.get(0) !== null
        ? (incomplete ??
          (query.problems === "true" ? "No organization has a problem." : "No organization matches."))
        : "";
    const { first, last } = inSight();
    while (pool.length < last - first) {
      const row = makeRow();
      pool.push(row);
      space.append(row);
    }
    for (const [at, row] of pool.entries()) {
      const index = first + at;
      row.hidden = index >= last;
      if (!row.hidden) showRow(row, index);
    }
    for (let chunk = Math.floor(first / CHUNK); chunk * CHUNK < last; chunk++) load(chunk);
  }

  const rowAt = (index) => chunks.get(Math.floor(index / CHUNK))?.[index % CHUNK];

  function makeRow() {
    const parts = [
      h("span", { class: "who" }, h("b"), h("small")),
      h("span", { class: "lag" }, h("span"), h("small", { class: "more" })),
      h("span"),
      h("span"),
    ];
    const row = h("div", { class: "row", role: "option" }, ...parts);
    row.onclick = () => {
      choose(Number(row.dataset.index));
      open();
    };
    return row;
  }

  function showRow(row, index) {
    const shown = rowAt(index);
    row.style.transform = `translateY(${index * ROW_PX}px)`;
    set(row, {
      id: `organization-${index}`,
      "data-index": index,
      "aria-posinset": index + 1,
      "aria-setsize": matched,
      "aria-selected": String(index === active),
      "data-state": shown === undefined ? "loading" : stateOf(shown),
    });
    const [who, lag, last, traffic] = row.children;
    say(who.firstElementChild, shown?.name ?? "…");
    say(who.lastElementChild, shown === undefined ? "" : shown.id || shown.account);
    const words = shown === undefined ? "" : lagWords(shown);
    say(lag.firstElementChild, words.replace(HISTORY, ""));
    say(lag.lastElementChild, words.endsWith(HISTORY) ? HISTORY : "");
    say(last, shown === undefined ? "" : lastWords(shown));
    say(traffic, shown === undefined || shown.events === null ? "" : brief(shown.events));
    row.title = shown?.reason ?? "";
  }

  function lastWords({ lastEventMs, events }) {
    if (events === null) return "";
    return lastEventMs === null ? "none yet" : ago(lastEventMs, nowMs);
  }

  function choose(index) {
    active = Math.max(0, Math.min(matched - 1, index));
    const top = active * ROW_PX;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + ROW_PX > box.scrollTop + box.clientHeight) box.scrollTop = top + ROW_PX - box.clientHeight;
    render();
    set(box, { "aria-activedescendant": `organization-${active}` });
  }

  function open() {
    const row = rowAt(active);
    if (row !== undefined) onOpen(row);
  }

  box.onkeydown = (event) => {
    const page = Math.max(1, Math.floor(box.clientHeight / ROW_PX) - 1);
    const to = {
      ArrowDown: active + 1,
      ArrowUp: active - 1,
      PageDown: active + page,
      PageUp: active - page,
      Home: 0,
      End: matched - 1,
    };
    if (event.key === "Enter") open();
    else if (event.key in to) choose(to[event.key]);
    else return;
    event.preventDefault();
  };

  let frame = 0;
  box.onscroll = () => {
    if (frame === 0)
      frame = requestAnimationFrame(() => {
        frame = 0;
        render();
      });
  };

  /** Drops the loaded rows and loads again. */
  function restart(change) {
    query = { ...query, ...change };
    generation++;
    chunks = new Map();
    active = 0;
    box.scrollTop = 0;
    load(0);
  }

  let typing = 0;
  byId("search").oninput = (event) => {
    clearTimeout(typing);
    typing = setTimeout(() => restart({ search: event.target.value }), 150);
  };
  byId("search").onkeydown = (event) => {
    if (event.key === "ArrowDown") box.focus();
  };
  byId("problems").onchange = (event) => restart({ problems: String(event.target.checked) });
  byId("sort").onchange = (event) => restart({ sort: event.target.value });
  new ResizeObserver(render).observe(box);

  return {
    /** Loads the visible rows again and shows them when all are there, so that nothing flickers. */
    async refresh(now) {
      nowMs = now;
      const own = generation;
      const { first, last } = inSight();
      const wanted = new Set([0, Math.floor(first / CHUNK), Math.floor(Math.max(first, last - 1) / CHUNK)]);
      const fresh = await Promise.all(
        [...wanted].map(async (chunk) => [chunk, await get(`/api/organizations?${parameters(chunk)}`)]),
      );
      if (own !== generation) return;
      chunks = new Map();
      for (const [chunk, view] of fresh) take(chunk, view);
    },
  };
}

export function stateOf({ state, lagMs, gapMs }) {
  if (state === "vanished") return "not read";
  if (state !== "active") return state;
  if (lagMs === null || lagMs > 900_000) return "late";
  return gapMs > 0 ? "gap" : "good";
}

export function lagWords({ state, lagMs, unreadMs }) {
  if (state === "vanished") return "not read";
  if (state !== "active") return state;
  if (lagMs === null) return "not read";
  return unreadMs > 0 ? `${duration(lagMs)}${HISTORY}` : duration(lagMs);
}
