import { h, keep, say, set } from "./dom.js";
import { ago, dayName, number, percent, plural } from "./format.js";

/** From the bottom up: what is sealed lies deepest. */
export const STATES = [
  ["sealed", "Sealed", "read, compared again, and nothing new was found"],
  ["read", "Read", "read; more comparisons are due"],
  ["live", "Live", "being read as it happens"],
  ["unread", "Unread", "still to be read"],
  ["refused", "Refused", "the service does not give it to us"],
  ["expired", "Gap", "the service forgot it before it was read"],
];

export function showCalendarLegend(list) {
  keep(
    list,
    STATES,
    ([state]) => state,
    ([state, name, meaning]) =>
      h("li", { title: meaning }, h("i", { class: `swatch ${state}` }), h("span", {}, name)),
    () => {},
  );
}

/**
 * A column a day, filled like a tide gauge. One stop for the keyboard; arrows go from day to day.
 * @param {HTMLElement} box
 * @param {HTMLElement} detail where the chosen day is told in words
 * @param {{ unit: "organizations" | "share" }} options
 */
export function createCalendar(box, detail, { unit }) {
  let days = [];
  let nowMs = 0;
  let chosen = -1;
  set(box, {
    role: "listbox",
    "aria-orientation": "horizontal",
    "aria-label": "Days, oldest first",
    tabindex: "0",
  });

  function show(view, now) {
    days = view.days;
    nowMs = now;
    const full = Math.max(...days.map(total), Number.MIN_VALUE);
    keep(
      box,
      days,
      ({ day }) => day,
      () =>
        h(
          "div",
          { class: "day", role: "option" },
          ...STATES.map(([state]) => h("i", { class: state })).reverse(),
        ),
      (element, day) => {
        element.id = `${box.id}-${day.day}`;
        set(element, {
          "aria-label": words(day, unit, nowMs),
          "aria-selected": String(days[chosen] === day),
        });
        const bars = [...element.children].reverse();
        for (const [at, [state]] of STATES.entries())
          bars[at].style.setProperty("--share", String(Math.min(1, day[state] / full)));
      },
    );
    tell(chosen);
  }

  function tell(at) {
    const day = days[at] ?? days.at(-1);
    say(detail, day === undefined ? "" : words(day, unit, nowMs));
  }

  function choose(at) {
    box.children[chosen]?.setAttribute("aria-selected", "false");
    chosen = Math.max(0, Math.min(days.length - 1, at));
    box.children[chosen]?.setAttribute("aria-selected", "true");
    set(box, { "aria-activedescendant": box.children[chosen]?.id });
    tell(chosen);
  }

  box.onkeydown = (event) => {
    const from = chosen < 0 ? days.length - 1 : chosen;
    const to = {
      ArrowLeft: from - 1,
      ArrowRight: from + 1,
      Home: 0,
      End: days.length - 1,
      PageUp: from - 7,
      PageDown: from + 7,
    };
    if (!(event.key in to)) return;
    event.preventDefault();
    choose(to[event.key]);
  };
  box.onpointermove = (event) => {
    const at = [...box.children].indexOf(event.target.closest(".day"));
    if (at >= 0) tell(at);
  };
  box.onpointerleave = () => tell(chosen);
  box.onclick = (event) => {
    const at = [...box.children].indexOf(event.target.closest(".day"));
    if (at >= 0) choose(at);
  };
  return { show };
}

const TROUBLE = new Set(["unread", "refused", "expired"]);
const total = (day) => STATES.reduce((sum, [state]) => sum + day[state], 0);

/** A day in a sentence: what state it is in, and what both sides count. */
export function words(day, unit, nowMs) {
  const all = total(day);
  const parts = STATES.filter(([state]) => day[state] > 0.0005).map(([state, name]) => {
    const share = `${name.toLowerCase()} ${percent(day[state] / all)}`;
    if (unit === "share" || !TROUBLE.has(state)) return share;
    return `${share} (${plural(Math.ceil(day[state] - 0.0005), "organization")})`;
  });
  const sentences = [
    `${dayName(day.day)} (UTC): ${parts.length === 0 ? "nothing known" : parts.join(", ")}.`,
  ];
  if (day.apiCount !== null) {
    sentences.push(
      `The service told of ${number(day.apiCount)} events, ${number(day.heldCount)} are held${day.askedMs === null ? "" : `, asked ${ago(day.askedMs, nowMs)}`}.`,
    );
  }
  if (day.late > 0) sentences.push(`${number(day.late)} came late.`);
  return sentences.join(" ");
}
