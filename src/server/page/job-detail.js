import { get, send } from "./api.js";
import { openDialog } from "./detail.js";
import { byId, fill, h, say } from "./dom.js";
import { ago, number } from "./format.js";
import { createMeter, OUTCOMES, updateMeter } from "./job-meter.js";

const USERS_SHOWN = 500;
const CSV_USERS_MAX = 10_000;
const CSV_COLUMNS = ["username", "email", "userId", "outcome", "reason", "event", "timestamp", "state"];

/** The job that the dialog shows, with the outcome that its list is limited to. */
let shown = null;

/** One job: the account in words, its progress, and every user with the reason. */
export async function showJob(id, nowMs) {
  shown = { id, outcome: "", nowMs };
  const select = h(
    "select",
    { id: "job-outcome", onchange: () => changeOutcome(select.value) },
    h("option", { value: "" }, "All users"),
    ...OUTCOMES.map((outcome) => h("option", { value: outcome }, outcome)),
  );
  openDialog(
    `Import job ${id}`,
    h("p", { id: "job-summary", role: "status" }),
    createMeter(),
    h("dl", { class: "facts", id: "job-facts" }),
    h(
      "p",
      { class: "actions" },
      h("label", { for: "job-outcome" }, "Show "),
      select,
      h("button", { type: "button", class: "quiet", onclick: () => downloadCsv(id) }, "Download CSV"),
      h(
        "button",
        { type: "button", id: "job-activate", hidden: true, onclick: () => activate(id) },
        "Activate",
      ),
    ),
    h("p", { class: "note", id: "job-note", role: "status" }),
    h("div", {
      id: "job-users",
      class: "table",
      tabindex: "0",
      role: "region",
      "aria-label": "Users of the job",
    }),
  );
  byId("detail-dialog").addEventListener(
    "close",
    () => {
      shown = null;
    },
    { once: true },
  );
  await refreshJobDetail(nowMs);
}

function changeOutcome(outcome) {
  if (shown === null) return;
  shown = { ...shown, outcome };
  void refreshJobDetail(shown.nowMs);
}

/** Called with every refresh of the page, so that a job that runs shows its progress. */
export async function refreshJobDetail(nowMs) {
  if (shown === null || byId("job-summary") === null) return;
  const { id, outcome } = shown;
  const query = new URLSearchParams({ limit: USERS_SHOWN, ...(outcome === "" ? {} : { outcome }) });
  const [job, { users }] = await Promise.all([
    get(`/api/imports/${id}`),
    get(`/api/imports/${id}/users?${query}`),
  ]);
  if (shown?.id !== id || byId("job-summary") === null) return;
  say(byId("job-summary"), job.summary);
  updateMeter(byId("job-summary").nextElementSibling, job);
  fill(byId("job-facts"), ...facts(job, nowMs));
  const button = byId("job-activate");
  button.hidden = job.staged === 0;
  button.dataset.users = String(job.staged);
  say(button, `Activate ${number(job.staged)} users`);
  const total =
    outcome === "" ? OUTCOMES.reduce((sum, one) => sum + job.counts[one], 0) : job.counts[outcome];
  say(
    byId("job-note"),
    total > users.length ? `The first ${number(users.length)} of ${number(total)} users.` : "",
  );
  fill(byId("job-users"), usersTable(users, job.endedAt !== null));
}

function facts(job, nowMs) {
  const taken = job.parts.filter(({ state }) => state === "taken").length;
  const list = [
    ["State", job.state],
    ["Import", job.import ?? "–"],
    ["Organization", job.organization ?? "–"],
    ["Requested", `${ago(Date.parse(job.requestedAt), nowMs)} by ${job.requestedBy}`],
    ["Ended", job.endedAt === null ? "not yet" : ago(Date.parse(job.endedAt), nowMs)],
    ["Events", number(job.counts.events)],
  ];
  if (job.parts.length > 1) list.push(["Parts taken", `${number(taken)} of ${number(job.parts.length)}`]);
  if (job.offerNote !== null) list.push(["Offer", job.offerNote]);
  if (job.reason !== null) list.push(["Reason", job.reason]);
  return list.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)));
}

function usersTable(users, hasEnded) {
  const word = (outcome) => (outcome === "pending" ? (hasEnded ? "unaccounted" : "waiting") : outcome);
  const rows = users.map((user) =>
    h(
      "tr",
      {},
      h("td", {}, user.username ?? user.email ?? user.userId ?? "–"),
      h("td", {}, word(user.outcome)),
      h("td", {}, user.state ?? ""),
      h("td", {}, user.reason ?? ""),
    ),
  );
  const head = ["User", "Outcome", "State", "Reason"].map((name) => h("th", { scope: "col" }, name));
  return h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows));
}

/** The number is confirmed by the person and by the server, which refuses another one. */
async function activate(id) {
  const users = Number(byId("job-activate").dataset.users);
  const question = `Activate ${number(users)} users of job ${id}? They can sign in then.`;
  if (!window.confirm(question)) return;
  try {
    const { activated, failed } = await send("POST", `/api/imports/${id}/activate`, { users });
    const refused = failed.map(({ user, reason }) => `${user}: ${reason}`).join("; ");
    say(
      byId("job-note"),
      `${number(activated)} activated.${refused === "" ? "" : ` Not activated: ${refused}`}`,
    );
  } catch (error) {
    say(byId("job-note"), error.message);
  }
  if (shown !== null) await refreshJobDetail(shown.nowMs);
}

/** RFC 4180. A cell that a spreadsheet would run as a formula is made text. */
async function downloadCsv(id) {
  const users = [];
  for (let offset = 0; ; offset += CSV_USERS_MAX) {
    const page = (await get(`/api/imports/${id}/users?limit=${CSV_USERS_MAX}&offset=${offset}`)).users;
    users.push(...page);
    if (page.length < CSV_USERS_MAX) break;
  }
  const rows = users.map((user) => CSV_COLUMNS.map((column) => csvCell(user[column] ?? "")));
  const text = [CSV_COLUMNS, ...rows].map((row) => `${row.join(",")}\r\n`).join("");
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  h("a", { href: url, download: `import-${id}.csv` }).click();
  URL.revokeObjectURL(url);
}

function csvCell(value) {
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
