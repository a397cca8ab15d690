import { byId, fill, h, keep, say } from "./dom.js";
import { brief, duration, number, plural } from "./format.js";

export function showAccounts({ accounts, nowMs }) {
  say(byId("accounts-count"), plural(accounts.length, "account"));
  keep(
    byId("accounts"),
    accounts,
    ({ name }) => name,
    () => h("li", { class: "entry" }, h("div", { class: "line" }), h("p", { class: "note" })),
    (element, account) => {
      const [line, note] = element.children;
      const state =
        account.state === "paused" ? "paused" : account.state === "reading" ? "running" : "unknown";
      fill(line, h("b", {}, account.name), h("span", { class: "chip", "data-state": state }, account.state));
      say(note, accountWords(account, nowMs));
    },
  );
}

function accountWords({ organizations, pace, clockOffsetMs, pausedUntilMs }, nowMs) {
  const parts = [`${plural(organizations.active, "organization")} read`];
  if (organizations.refused > 0) parts.push(`${number(organizations.refused)} refused`);
  if (organizations.vanished > 0) parts.push(`${number(organizations.vanished)} vanished`);
  if (pace !== null) {
    const limit =
      pace.requestsPerSecondMax === null
        ? "no rate limit"
        : `limited to ${brief(pace.requestsPerSecondMax)}/s`;
    parts.push(`${plural(pace.requests, "request")} (${number(pace.refused)} slowed down, ${limit})`);
  }
  if (clockOffsetMs !== null && Math.abs(clockOffsetMs) >= 1500)
    parts.push(`our clock is ${duration(Math.abs(clockOffsetMs))} ${clockOffsetMs > 0 ? "slow" : "fast"}`);
  if (pausedUntilMs !== null && pausedUntilMs > nowMs)
    parts.push(`tried again in ${duration(pausedUntilMs - nowMs)}`);
  return `${parts.join(" · ")}.`;
}
