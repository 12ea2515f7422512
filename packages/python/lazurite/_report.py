"""Requests and changes of a fork as text, for the reports of failed tests."""

from typing import Any, Dict, List

#: Requests of a report, the latest ones.
REQUESTS_MAX = 100
#: Changes of a report.
CHANGES_MAX = 100

_SIGNS = {"created": "+", "deleted": "-", "changed": "~"}
_NAMES = ("container", "blob", "snapshot", "versionId", "queue", "messageId", "table", "partitionKey", "rowKey")


def places(store: str, requests: str, seconds: int) -> str:
    """The links to the console, which work as long as the server is kept."""
    return f"Store:    {store}\nRequests: {requests}\nKept until the next run, for {_duration(seconds)} at most."


def _duration(seconds: int) -> str:
    return f"{seconds // 60} minutes" if seconds >= 120 else f"{seconds} seconds"


def requests(all_requests: List[Dict[str, Any]]) -> str:
    """A line for each request: status, method, target, operation, and the code of a refusal."""
    shown = all_requests[-REQUESTS_MAX:]
    lines = [f"{one['status']} {one['method']} {one['target']}  {one['operation']} {one.get('code') or ''}".rstrip() for one in shown]
    if len(shown) < len(all_requests):
        lines.insert(0, f"the last {len(shown)} requests")
    return "\n".join(lines) or "none"


def changes(diff: Dict[str, Any]) -> str:
    """A line for each change, and one for each value of a changed resource."""
    lines = []
    for change in diff["changes"]:
        names = "/".join(change[name] for name in _NAMES if name in change)
        lines.append(f"{_SIGNS[change['change']]} {change['kind']} {names}")
        if change["change"] == "changed":
            lines += [f"    {one['part']} {one['name']}: {one['old']!r} -> {one['new']!r}" for one in change["values"]]
    if diff["truncated"]:
        lines.append(f"{diff['count']} changes in all")
    return "\n".join(lines) or "none"
