import { Pool } from "undici";

/** The yardstick: pages through all events and throws them away. Arguments: url, key, organizations, start. */
const [url, key, organizations, start] = process.argv.slice(2);
const pool = new Pool(url, { connections: 1 });
let searchAfter;
let events = 0;
let bytes = 0;
for (;;) {
  const headers = ["x-api-key", key, "content-type", "application/json"];
  for (const id of organizations.split(",")) headers.push("x-org-id", id);
  const response = await pool.request({
    path: "/insights/directory/v1/events",
    method: "POST",
    headers,
    body: JSON.stringify({
      service: ["all"],
      start_time: start,
      limit: 10_000,
      search_after: searchAfter && JSON.parse(searchAfter),
    }),
  });
  if (response.statusCode !== 200) throw new Error(`status ${response.statusCode}`);
  for await (const chunk of response.body) bytes += chunk.length;
  const count = Number(response.headers["x-result-count"]);
  events += count;
  if (count < Number(response.headers["x-limit"])) break;
  searchAfter = response.headers["x-search_after"];
}
await pool.close();
console.log(JSON.stringify({ events, bytes }));
