import { byId, h, say } from "./dom.js";
import { brief, clockTime } from "./format.js";

const SHOWN = 12;

/** The newest events, newest first, without their contents. */
export function createRecent() {
  const list = byId("recent");
  let last = { page: 0, index: -1 };
  let hidden = 0;
  const isNew = ({ page, index }) => page > last.page || (page === last.page && index > last.index);
  return {
    add({ events, more }) {
      hidden += more;
      const fresh = events.filter(isNew);
      last = fresh.at(-1) ?? last;
      for (const event of fresh.slice(-SHOWN)) {
        list.prepend(
          h(
            "li",
            { title: event.account },
            h("time", { datetime: new Date(event.timestampMs).toISOString() }, clockTime(event.timestampMs)),
            h("b", {}, event.eventType || "event"),
            h("span", {}, event.name ?? event.organization ?? event.account),
          ),
        );
      }
      while (list.children.length > SHOWN) list.lastElementChild.remove();
    },
    rate(perSecond) {
      say(byId("recent-count"), `${brief(perSecond)} a second`);
      say(byId("recent-note"), noteOf(list.children.length, hidden));
    },
  };
}

function noteOf(shown, hidden) {
  if (hidden > 0)
    return `${brief(hidden)} more arrived and were too many to show, or delivered before they could be shown.`;
  return shown === 0 ? "No event has arrived since this page was opened." : "";
}
