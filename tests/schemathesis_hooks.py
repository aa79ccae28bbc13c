"""Rules of the API description that JSON Schema cannot express: a call that breaks one is corrected before it is sent.

Also avoids calls that are valid but take too long: an answer that lasts as long as its grant, a wait of minutes, a timeout too
short for any answer (504), a revision of the far future (504).
"""

import re

import requests
import schemathesis
from schemathesis.core.parameters import ParameterLocation

WAIT_MAX_MS = 200
TIMEOUT_MIN_MS = 5000
UNKNOWN_HEADER = "x-schemathesis-unknown-property"
STREAMS = ("text/event-stream", "application/x-ndjson")
UNIT_MS = {"ms": 1, "s": 1000, "": 1000, "m": 60000, "h": 3600000}
SEQUENTIAL_BYTES_MAX = 1000
BYTES_MAX = {"owner": 256, "name": 256, "reason": 256, "prefix": 512, "meta": 1024, "value": 4096}


def milliseconds(value):
    """The milliseconds of a duration; None if it is not one."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value * 1000
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|)", value) if isinstance(value, str) else None
    return float(match[1]) * UNIT_MS[match[2]] if match else None


def texts(value):
    if isinstance(value, dict):
        return [text for pair in value.items() for part in pair for text in texts(part)]
    return [value] if isinstance(value, str) else []


def bytes_of(value):
    return sum(len(text.encode(errors="replace")) for text in texts(value))


def is_positive(case):
    """Whether the call is meant to be valid. An unknown header does not make it invalid."""
    meta = getattr(case, "meta", None)
    return meta is None or meta.generation.mode.is_positive or UNKNOWN_HEADER in (case.headers or {})


def is_one_of_a_sequence(case):
    meta = getattr(case, "meta", None)
    return meta is not None and meta.phase.name.value == "stateful"


class Parameters:
    """The parameters of the query and of a JSON body together; or those of one call of a batch."""

    def __init__(self, *places):
        self.places = [place for place in places if isinstance(place, dict)]

    def get(self, name):
        return next((place[name] for place in self.places if place.get(name) is not None), None)

    def drop(self, *names):
        for place in self.places:
            for name in names:
                place.pop(name, None)


def is_on(value):
    """Whether a flag is set: bare, or true."""
    return value in (True, "true", "")


def keep_to_the_words_of_nodes(case, parameters):
    if not case.operation.path.startswith("/v1/nodes/"):
        return
    # A node has at most one kind of lifetime.
    if parameters.get("session") is not None:
        parameters.drop("container")
    if parameters.get("ttl") is not None and is_on(parameters.get("container")):
        parameters.drop("container")
    # Only a listing has pages.
    if not is_on(parameters.get("children")) and not is_on(parameters.get("recursive")):
        parameters.drop("limit")
    # The path, the name and the number together must fit.
    path = (case.path_parameters or {}).get("path")
    if bytes_of(path) + bytes_of(parameters.get("name")) > SEQUENTIAL_BYTES_MAX:
        parameters.drop("name")


def keep_to_the_words_of_watches(case, parameters):
    if case.operation.path != "/v1/watch":
        return
    if is_on(parameters.get("cluster")):
        for name in ["path", "recursive", "children", "lock", "locks", "session", "sessions", "initial"]:
            parameters.drop(name)
    if is_on(parameters.get("recursive")):
        parameters.drop("children")
    if parameters.get("path") is None:
        parameters.drop("children")
        if parameters.get("lock") is None:
            parameters.drop("recursive")
    # No revision after the next one may be named, and old ones are compacted.
    if parameters.get("from") is not None:
        parameters.drop("from")
    (case.headers or {}).pop("Last-Event-ID", None)


def keep_to_the_words_of_histories(case, parameters):
    if case.operation.path != "/v1/history":
        return
    # A point in time has no window, and a window ends after it begins.
    if parameters.get("at") is not None:
        parameters.drop("from", "to")
    if parameters.get("from") is not None:
        parameters.drop("to")


def keep_to_the_words_of_upgrades(case, parameters):
    # A new cluster has the newest version, and accepts no other.
    if case.operation.path == "/v1/cluster/upgrade/finalize":
        for place in parameters.places:
            if "to" in place:
                place["to"] = 2


def keep_to_the_words_of_members(case, parameters):
    path = case.operation.path
    # A standing join token is for voters, replaces any silent member, and does not expire.
    if path == "/v1/cluster/join-tokens":
        if is_on(parameters.get("standing")):
            parameters.drop("ttl", "replaces", "role")
        else:
            parameters.drop("up_to")
    # The regular expressions of addresses admit more than the parser does: `[:::]:1`.
    for place in parameters.places:
        for name, value in (("url", "http://n2:7171"), ("peer", "n2:7271")):
            if path == "/v1/cluster/members/{id}" and name in place:
                place[name] = value
    if path == "/v1/cluster/members/{id}" and parameters.get("voter") is not None:
        parameters.drop("url", "peer", "force", "priority", "zone")
    # `force` alone changes nothing.
    changes = ("url", "peer", "priority", "zone", "voter")
    if path == "/v1/cluster/members/{id}" and is_on(parameters.get("force")) and not any(map(parameters.get, changes)):
        parameters.places[0]["zone"] = "east"


def keep_the_members(case, parameters):
    """This cluster keeps its members and its timing profile, also if an invalid call turns out to be valid."""
    path = case.path_parameters or {}
    if case.operation.path == "/v1/cluster/members/{id}" and re.fullmatch("[0-9]+", str(path.get("id"))):
        path["id"] = "999"
        # A redirect would accept an invalid change: the parameters of the description exclude each other.
        (case.headers or {}).pop("Fairhold-Route", None)
    for place in parameters.places:
        # With another profile, the shortest `ttl` would be longer than the description says.
        if case.operation.path == "/v1/cluster/settings" and place.get("timing") in ("metro", "wan", "global"):
            place["timing"] = "lan"


def keep_to_one_place(case):
    """Each parameter is in the query or in the body. One that is deliberately missing in the body is not in the query."""
    if not case.query:
        return
    if is_positive(case):
        twice = set(case.query) & set(case.body) if isinstance(case.body, dict) else set()
    elif is_wrong_in_body(case):
        twice = {name for name in case.query if name in fields_of_body(case)}
    else:
        twice = set()
    for name in twice:
        del case.query[name]


def drop_null(case):
    """Drops parameters that are `null`, which means absent."""
    bodies = [(case.body, fields_of_body(case))] if isinstance(case.body, dict) else []
    bodies += [(acquire, fields_of_acquire(case)) for acquire in acquires_of_batch(case)]
    for body, fields in bodies:
        for name in fields:
            if name in body and body[name] is None:
                del body[name]


def acquires_of_batch(case):
    """The parameters of a batch's acquires; empty if the call is not a batch."""
    calls = case.body.get("calls") if case.operation.path == "/v1/batch" and isinstance(case.body, dict) else None
    found = [call.get("acquire") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    return [acquire for acquire in found if isinstance(acquire, dict)]


def fields_of_acquire(case):
    one_of = fields_of_body(case)["calls"]["items"]["anyOf"]
    return next(one["properties"]["acquire"]["properties"] for one in one_of if "acquire" in one["properties"])


def fields_of_body(case):
    content = case.operation.definition.raw.get("requestBody", {}).get("content", {})
    return content.get("application/json", {}).get("schema", {}).get("properties", {})


def is_wrong_in_body(case):
    meta = getattr(case, "meta", None)
    body = meta and meta.components.get(ParameterLocation.BODY)
    return bool(body) and body.mode.is_negative


def drop_what_cannot_be_waited_for(case, parameters):
    if parameters.get("hold") == "stream":
        parameters.drop("hold")
    if (milliseconds(parameters.get("wait")) or 0) > WAIT_MAX_MS:
        parameters.drop("wait")
    headers = case.headers or {}
    timeout = milliseconds(headers.get("Fairhold-Timeout"))
    if timeout is not None and timeout < TIMEOUT_MIN_MS:
        del headers["Fairhold-Timeout"]
    if re.fullmatch("0*[1-9][0-9]*", str(headers.get("Fairhold-Min-Revision") or "")) or UNKNOWN_HEADER in headers:
        headers.pop("Fairhold-Min-Revision", None)


def whole(value):
    """The same value with 7 for 7.0: one number in JSON Schema, but two for JSON parsers."""
    if isinstance(value, dict):
        return {name: whole(field) for name, field in value.items()}
    if isinstance(value, list):
        return [whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def has_whole_floats(value):
    if isinstance(value, dict):
        return any(map(has_whole_floats, value.values()))
    if isinstance(value, list):
        return any(map(has_whole_floats, value))
    return isinstance(value, float) and value.is_integer()


def keep_to_different_locks(case):
    """Names each lock once."""
    if case.operation.path == "/v1/locks" and isinstance(case.body, dict) and isinstance(case.body.get("locks"), list):
        names = {lock["name"]: lock for lock in case.body["locks"]}
        if len(names) < len(case.body["locks"]):
            case.body["locks"] = list(names.values())


def keep_to_the_words_of_acquires(parameters):
    if parameters.get("session") is not None:
        parameters.drop("ttl", "hold")
    if parameters.get("permits") is not None and parameters.get("permits") != parameters.get("limit"):
        parameters.drop("permits")
    if parameters.get("mode") == "shared":
        parameters.drop("limit", "permits")
    # A maximum hold is at least a second.
    if 0 < (milliseconds(parameters.get("max_hold")) or 0) < 1000:
        for place in parameters.places:
            if "max_hold" in place:
                place["max_hold"] = "1m"
    for name, most in BYTES_MAX.items():
        if bytes_of(parameters.get(name)) > most:
            parameters.drop(name)


def keep_to_the_words(case, parameters):
    # The coverage phase may start with an empty text, which is not a valid value of these headers.
    for name in ("If-Match", "Fairhold-Fence"):
        if (case.headers or {}).get(name) == "":
            del case.headers[name]
    # `after` names a past revision.
    parameters.drop("after")
    if case.operation.path.startswith("/v1/elections/"):
        # Only a stream accepts it, and these calls request none.
        parameters.drop("from")
    keep_to_the_words_of_acquires(parameters)
    for acquire in acquires_of_batch(case):
        keep_to_the_words_of_acquires(Parameters(acquire))
        if bytes_of(acquire.get("lock")) > BYTES_MAX["prefix"]:
            acquire["lock"] = "printer"
    # Only days that every month has, and no time before 1970 in any zone.
    for name in ("at", "from", "to"):
        moment = parameters.get(name)
        if isinstance(moment, str) and re.match("[0-9]{4}-[0-9]{2}-(29|3)|1970-01-01", moment):
            parameters.drop(name)
    # A valid cursor comes from a page.
    parameters.drop("cursor")
    path = case.path_parameters or {}
    # Only an administrator gives a reason, and names the session by its number.
    if case.operation.label == "DELETE /v1/sessions/{id}" and len(str(path.get("id"))) == 32:
        parameters.drop("reason")
    for name, most in (("name", 512), ("path", 1023)):
        if bytes_of(path.get(name)) > most:
            path[name] = "printer"
    headers = case.headers or {}
    if "If-Match" in headers:
        headers.pop("If-None-Match", None)
    keep_to_the_words_of_nodes(case, parameters)
    keep_to_the_words_of_watches(case, parameters)
    keep_to_the_words_of_histories(case, parameters)
    keep_to_the_words_of_upgrades(case, parameters)
    keep_to_the_words_of_members(case, parameters)


def keep_to_this_cluster(case):
    """Drops the id of another cluster, with which every request is refused."""
    if re.fullmatch("[0-9a-f]{32}", str((case.headers or {}).get("Fairhold-Cluster") or "")):
        del case.headers["Fairhold-Cluster"]


@schemathesis.hook
def before_call(context, case, kwargs):
    drop_null(case)
    keep_to_this_cluster(case)
    keep_to_one_place(case)
    if is_positive(case) and isinstance(case.body, dict) and has_whole_floats(case.body):
        case.body = whole(case.body)
    parameters = Parameters(case.query, case.body)
    keep_the_members(case, parameters)
    if is_one_of_a_sequence(case):
        # A redirect does not show the effect of earlier calls.
        (case.headers or {}).pop("Fairhold-Route", None)
    right = is_positive(case)
    drop_what_cannot_be_waited_for(case, parameters)
    # Without the dropped parameters, the call may have become valid.
    if right or is_positive(case):
        keep_to_one_place(case)
        keep_to_different_locks(case)
        keep_to_the_words(case, parameters)
    elif (case.headers or {}).get("Fairhold-Route") == "redirect":
        # A redirect is sent before the request is read: only the leader would refuse it.
        del case.headers["Fairhold-Route"]


def first_event(response):
    """A stream lasts as long as its reader: here its first event counts as the answer."""
    end = b"\n\n" if "event-stream" in response.headers["Content-Type"] else b"\n"
    body = b""
    while not body.endswith(end) and (piece := response.raw.read(1)):
        body += piece
    # The answer is not read to its end, so its connection cannot be reused.
    response.close()
    response._content = body
    response._content_consumed = True


send_whole = requests.adapters.HTTPAdapter.send


def send(adapter, request, stream=False, **options):
    """Like the library, but closes streams after their first event."""
    response = send_whole(adapter, request, stream=True, **options)
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip()
    if kind in STREAMS:
        first_event(response)
    elif not stream:
        response.content
    return response


requests.adapters.HTTPAdapter.send = send
