import { Pool } from "undici";

// The unit of processor time: JSON.parse and JSON.stringify of every event, once.
// Arguments: url, key, start, organization, repeats. Prints processor seconds per event.
const [url, key, start, organization, repeats] = process.argv.slice(2);
const pool = new Pool(url, { connections: 1 });
const response = await pool.request({
  path: "/insights/directory/v1/events",
  method: "POST",
  headers: ["x-api-key", key, "x-org-id", organization, "content-type", "application/json"],
  body: JSON.stringify({ service: ["all"], start_time: start, limit: 10_000 }),
});
const events = JSON.parse(await response.body.text()).map((event) => Buffer.from(JSON.stringify(event)));
await pool.close();

const decoder = new TextDecoder();
let length = 0;
const once = () => {
  for (const bytes of events) length += JSON.stringify(JSON.parse(decoder.decode(bytes))).length;
};
for (let warm = 0; warm < 5; warm++) once();
const before = process.cpuUsage();
for (let round = 0; round < Number(repeats); round++) once();
const { user, system } = process.cpuUsage(before);
console.log(JSON.stringify({ secondsPerEvent: (user + system) / 1e6 / (events.length * repeats), length }));
