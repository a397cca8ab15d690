"""Makes the calls that the vendor's SDKs and command modules make: lists with limit and skip, filters, imports."""
import json
import sys
import time
import urllib.parse
import urllib.request

WORLD = json.loads(sys.argv[1])
ORGANIZATION, APPLICATION, WORKDAY = sys.argv[2:5]
HEADERS = {"x-api-key": WORLD["apiKey"], "x-org-id": ORGANIZATION, "Content-Type": "application/json"}


def call(method, path, body=None, headers=HEADERS, **query):
    url = WORLD["managementUrl"] + path
    if query:
        url += "?" + urllib.parse.urlencode(query)
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers=headers, method=method)
    with urllib.request.urlopen(request) as response:
        text = response.read()
        return json.loads(text) if text else None


def paged(path, limit, **query):
    found = []
    while True:
        page = call("GET", path, limit=limit, skip=len(found), **query)
        rows = page["results"] if isinstance(page, dict) else page
        found += rows
        if len(rows) < limit:
            return found


def previewed():
    """The published interface pages a preview by cursor and sessionId."""
    found, cursor, session = [], "", ""
    while True:
        more = {"cursor": cursor, "sessionId": session} if cursor else {}
        page = call("GET", f"/v2/applications/{APPLICATION}/import/users", limit=20, **more)
        found += page["users"]
        cursor, session = page["cursor"], page["session_id"]
        if not cursor:
            return found


def main():
    without_organization = {name: value for name, value in HEADERS.items() if name != "x-org-id"}
    organizations = call("GET", "/organizations/", headers=without_organization, limit=100, sort="_id")
    applications = paged("/applications", 3, sort="name", fields="name displayLabel active")
    slack = call("GET", "/applications", filter="name:$eq:slack")["results"]
    created = call("POST", "/applications", {
        "name": "slack", "displayLabel": "Chat", "displayName": "Chat", "ssoUrl": "chat-sdk",
        "config": {"acsUrl": {"value": "https://chat.example/acs"}, "signResponse": {"value": True}},
    })
    call("POST", f"/v2/applications/{created['_id']}/associations",
         {"op": "add", "type": "user_group", "id": sys.argv[5]})
    bound = paged(f"/v2/applications/{created['_id']}/users", 10)
    bindings = paged(f"/v2/applications/{created['_id']}/associations", 10, targets="user_group")
    call("DELETE", f"/applications/{created['_id']}")
    job = call("POST", f"/v2/applications/{APPLICATION}/import/jobs",
               {"operations": ["users.create", "users.update"], "allowUserReactivation": True})
    workers = paged(f"/v2/workdays/{WORKDAY}/workers", 10)
    posted = call("POST", f"/v2/workdays/{WORKDAY}/import", [
        {"email": one["email"], "username": one["username"], "state": "STAGED",
         "firstname": one.get("firstname", one.get("firstName")), "lastname": one.get("lastname", one.get("lastName"))}
        for one in workers
    ])
    job_id = posted.get("jobId", posted.get("_id"))
    for _ in range(200):
        results = paged(f"/v2/workdays/{WORKDAY}/import/{job_id}/results", 10)
        if all(one["status"] != "pending" for one in results):
            break
        time.sleep(0.05)
    print(json.dumps({
        "organizations": organizations["totalCount"], "applications": len(applications), "slack": len(slack),
        "bound": len(bound), "paths": len(bound[0]["paths"]), "bindings": len(bindings), "job": job["_id"],
        "previewed": len(previewed()), "workers": len(workers),
        "results": len(results), "done": sum(one["status"] == "finished" for one in results),
        "directories": len(paged("/v2/directories", 10)),
    }))


main()
