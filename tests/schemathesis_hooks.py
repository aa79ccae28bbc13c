"""What the description says in words, because JSON Schema cannot: data that breaks it is not sent as data that fits.

And two things that are described and cannot be waited for: an answer that lasts as long as its grant, and a wait of minutes.
"""

import re

import schemathesis

WAIT_MAX_MS = 200
UNIT_MS = {"ms": 1, "s": 1000, "": 1000, "m": 60000, "h": 3600000}


def given(case, name):
    """A parameter of the query, or of the body; nothing where it is in neither."""
    for place in (case.query, case.body):
        if isinstance(place, dict) and place.get(name) is not None:
            return place[name]
    return None


def is_wait_too_long(value):
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value * 1000 > WAIT_MAX_MS
    match = re.fullmatch(r"([0-9]+)(ms|s|m|h|)", value) if isinstance(value, str) else None
    return bool(match) and int(match[1]) * UNIT_MS[match[2]] > WAIT_MAX_MS


def texts(value):
    if isinstance(value, dict):
        return [text for pair in value.items() for part in pair for text in texts(part)]
    return [value] if isinstance(value, str) else []


def is_positive(case):
    meta = getattr(case, "meta", None)
    return meta is None or meta.generation.mode.is_positive


@schemathesis.hook
def filter_case(context, case):
    if given(case, "hold") == "stream" or is_wait_too_long(given(case, "wait")):
        return False
    if not is_positive(case):
        return True
    query, body = case.query or {}, case.body if isinstance(case.body, dict) else {}
    # Each parameter once, in the query or in the body.
    if any(body.get(name) is not None or query[name] is None for name in set(query) & set(body)):
        return False
    # Which parameters exclude one another.
    if given(case, "session") is not None and given(case, "ttl") is not None:
        return False
    limit, permits = given(case, "limit"), given(case, "permits")
    if case.operation.path.startswith("/v1/locks/"):
        if isinstance(permits, int) and permits > (limit if isinstance(limit, int) else 1):
            return False
        if given(case, "mode") == "shared" and isinstance(limit, int) and limit > 1:
            return False
    # A reason is an administrator's, who names a session by its number.
    if case.operation.label == "DELETE /v1/sessions/{id}" and given(case, "reason") is not None:
        if len(str(case.path_parameters.get("id"))) == 32:
            return False
    # Limits in bytes.
    for name, most in (("owner", 256), ("name", 256), ("reason", 256), ("prefix", 512), ("meta", 1024)):
        if sum(len(text.encode(errors="replace")) for text in texts(given(case, name))) > most:
            return False
    for name, most in (("name", 512), ("path", 1023)):
        if len(str((case.path_parameters or {}).get(name, "")).encode(errors="replace")) > most:
            return False
    return True
