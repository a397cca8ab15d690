"""Reads all events the way Elastic's HTTP JSON input does: a start time, pages of 1,000, search_after from the header
of the last answer, until a page has fewer rows than the limit. Standard library only. Prints one event a line."""
import json
import sys
import urllib.request

url, key, organization, start = sys.argv[1:5]
body = {"service": ["all"], "start_time": start, "limit": 1000, "sort": "ASC"}
while True:
    request = urllib.request.Request(
        url + "/insights/directory/v1/events",
        data=json.dumps(body).encode(),
        headers={"x-api-key": key, "x-org-id": organization, "Content-Type": "application/json"},
        method="POST",
    )
    with urllib.request.urlopen(request) as response:
        events = json.loads(response.read())
        for event in events:
            print(json.dumps(event))
        if int(response.headers["X-Result-Count"]) < int(response.headers["X-Limit"]):
            break
        body["search_after"] = json.loads(response.headers["X-Search_after"])
