import { Pool } from "undici";

// The yardstick: reads all pages and throws them away.
// Arguments: url, key, start, page size, organizations.
const [url, key, start, limit, organizations] = process.argv.slice(2);
/** So many organizations fit into one request's headers. */
const GROUP = 200;
const pool = new Pool(url, { connections: 1 });
const ids = organizations.split(",");
for (let at = 0; at < ids.length; at += GROUP) await readAll(ids.slice(at, at + GROUP));
await pool.close();

async function readAll(group) {
  let searchAfter;
  for (;;) {
    const headers = ["x-api-key", key, "content-type", "application/json"];
    for (const id of group) headers.push("x-org-id", id);
    const response = await pool.request({
      path: "/insights/directory/v1/events",
      method: "POST",
      headers,
      body: JSON.stringify({
        service: ["all"],
        start_time: start,
        limit: Number(limit),
        search_after: searchAfter && JSON.parse(searchAfter),
      }),
    });
    if (response.statusCode !== 200) throw new Error(`status ${response.statusCode}`);
    for await (const _chunk of response.body);
    if (Number(response.headers["x-result-count"]) < Number(response.headers["x-limit"])) return;
    searchAfter = response.headers["x-search_after"];
  }
}
