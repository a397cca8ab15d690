"""Reads all events of an organization the way the vendor's own exporters call the service.

One query for each service name, with a count first, pages of 10,000 by search_after, service accounts or keys.
Standard library only. Prints one line of JSON: the number of events per service.
"""
import base64
import json
import sys
import urllib.error
import urllib.parse
import urllib.request

# The names that the exporter knows, two of which the specification does not list.
SERVICES = [
    "access_management", "alerts", "asset_management", "directory", "ldap", "mdm", "notifications",
    "object_storage", "password_manager", "radius", "reports", "saas_app_management", "software", "sso",
    "systems", "workflows",
]


def post(url, body, headers):
    request = urllib.request.Request(url, data=json.dumps(body).encode(), headers=headers, method="POST")
    with urllib.request.urlopen(request) as response:
        return json.loads(response.read()), response.headers


def token_headers(world):
    oauth = world["oauth"]
    basic = base64.b64encode(f"{oauth['clientId']}:{oauth['clientSecret']}".encode()).decode()
    form = urllib.parse.urlencode({"scope": "api", "grant_type": "client_credentials"}).encode()
    request = urllib.request.Request(
        oauth["tokenUrl"], data=form, headers={"Authorization": f"Basic {basic}"}, method="POST"
    )
    with urllib.request.urlopen(request) as response:
        return {"Authorization": "Bearer " + json.loads(response.read())["access_token"]}


def read(world, service, start, end, headers):
    url = world["insightsUrl"] + "/insights/directory/v1/events"
    body = {"service": [service], "start_time": start, "end_time": end, "limit": 10000}
    counted, _ = post(url + "/count", {k: body[k] for k in ("service", "start_time", "end_time")}, headers)
    data, answer = post(url, body, headers)
    events = list(data)
    while int(answer.get("X-Result-Count", 0)) >= int(answer.get("X-Limit", 10000)):
        body["search_after"] = json.loads(answer["X-Search_After"])
        data, answer = post(url, body, headers)
        events += data
    if counted["count"] != len(events):
        raise SystemExit(f"{service}: counted {counted['count']}, read {len(events)}")
    return events


def main():
    world = json.loads(sys.argv[1])
    organization, start, end, mode = sys.argv[2:6]
    headers = {"x-api-key": world["apiKey"]} if mode == "key" else token_headers(world)
    headers |= {"content-type": "application/json", "user-agent": "exporter", "x-org-id": organization}
    counts = {service: len(read(world, service, start, end, headers)) for service in SERVICES}
    counts["all"] = len(read(world, "all", start, end, headers))
    print(json.dumps(counts))


main()
