import { h, keep, say, set } from "./dom.js";
import { ago, dayName, number, percent, plural } from "./format.js";

/** From the bottom up. */
export const STATES = [
  ["sealed", "Complete", "Read, and the last comparison with the service found nothing new."],
  ["read", "Read", "Read. It will be compared with the service again, because events can appear late."],
  ["live", "Today", "Being read as it happens."],
  ["unread", "Not read yet", "Still to be read."],
  [
    "refused",
    "Refused",
    "The service refuses to give these events and is asked again, or their organization is not asked for any more.",
  ],
  ["expired", "Lost", "The service deleted these events before they were read."],
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
 * One column a day. One tab stop; arrow keys move between days.
 * @param {HTMLElement} box
 * @param {HTMLElement} detail shows the chosen day in words
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

/** A smaller share would read "0 %", such as the live seconds of a day. Trouble is always named. */
const SHOWN_SHARE = 0.001;
const TROUBLE = new Set(["unread", "refused", "expired"]);
const total = (day) => STATES.reduce((sum, [state]) => sum + day[state], 0);

/** A day in a sentence: its state, and the counts of both sides. */
export function words(day, unit, nowMs) {
  const all = total(day);
  const parts = STATES.filter(
    ([state]) => day[state] > 0.0005 && (TROUBLE.has(state) || day[state] / all >= SHOWN_SHARE),
  ).map(([state, name]) => {
    const share = `${name.toLowerCase()} ${percent(day[state] / all)}`;
    if (unit === "share" || !TROUBLE.has(state)) return share;
    return `${share} (${plural(Math.ceil(day[state] - 0.0005), "organization")})`;
  });
  const sentences = [`${dayName(day.day)} (UTC): ${parts.length === 0 ? "no data" : parts.join(", ")}.`];
  if (day.apiCount !== null) {
    sentences.push(
      `The service counts ${number(day.apiCount)} events, ${number(day.heldCount)} are held${day.askedMs === null ? "" : `, compared ${ago(day.askedMs, nowMs)}`}.`,
    );
  }
  if (day.late !== null && day.late > 0) sentences.push(`${number(day.late)} appeared late.`);
  return sentences.join(" ");
}
