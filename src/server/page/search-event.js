import { byId, fill, h, say } from "./dom.js";
import { fullTime } from "./search-results.js";

const STATES = {
  delivered: "delivered",
  waiting: "not yet",
  left_out: "left out",
  dead_letter: "refused",
  unknown: "not known",
};

/** Everything about one event: its bytes, OCSF, where it was delivered, and its proof. */
export function showEvent(event, { onFollow, onClose }) {
  const dialog = byId("event-dialog");
  say(byId("event-title"), `${event.event_type ?? "Event"}, ${fullTime(event.timeMs)}`);
  const facts = [
    ["Organization", event.organization],
    ["Service", event.service],
    ["Outcome", event.outcome],
    ["Actor", event.actor],
    ["Target", event.target],
    ["From", [event.ip, event.country].filter(Boolean).join(" ")],
    ["Application", event.application],
    ["Device", event.device],
    ["Id", event.id],
    ["Identity", event.identity],
  ].filter(([, value]) => value);
  fill(
    byId("event-body"),
    h(
      "dl",
      { class: "facts" },
      ...facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
    ),
    h(
      "div",
      { class: "actions" },
      ...[event.actor, event.device].filter(Boolean).map((name) => followButton(name, onFollow)),
    ),
    h("h3", {}, "As the service sent it"),
    bytes(event.raw, "The event's bytes"),
    h("h3", {}, "As OCSF"),
    bytes(JSON.stringify(event.ocsf, null, 2), "The event as OCSF"),
    h("h3", {}, "Delivered"),
    deliveries(event),
    h("h3", {}, "Proof"),
    ...proof(event),
  );
  byId("event-close").onclick = () => dialog.close();
  dialog.onclose = onClose;
  if (!dialog.open) dialog.showModal();
}

function followButton(name, onFollow) {
  return h("button", { type: "button", class: "quiet", onclick: () => onFollow(name) }, `Follow ${name}`);
}

function bytes(text, label) {
  return h("pre", { class: "bytes", tabindex: "0", role: "region", "aria-label": label }, text);
}

function deliveries({ deliveries: list }) {
  if (list.length === 0) return h("p", { class: "note" }, "There is no record of deliveries.");
  return h(
    "ul",
    { class: "list" },
    ...list.map(({ sink, state, note }) =>
      h("li", {}, h("b", {}, sink), ` ${STATES[state] ?? state}. ${note}`),
    ),
  );
}

function proof({ proof: own, closed }) {
  if (!closed)
    return [
      h("p", { class: "note" }, "Its day is not closed yet. A proof exists once it is in the archive."),
    ];
  if (own === null)
    return [h("p", { class: "note" }, "The proof cannot be made: run `tidemark archive verify`.")];
  const file = URL.createObjectURL(new Blob([`${JSON.stringify(own)}\n`], { type: "application/json" }));
  return [
    h(
      "p",
      {},
      "Anybody can check this file offline, with `tidemark archive verify-proof` and the public key.",
    ),
    h("p", {}, h("a", { href: file, download: "proof.json" }, "Save proof.json")),
  ];
}
