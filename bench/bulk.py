"""A session with very many grants: how fast it acquires them, and whether others wait when it ends."""

import http.client
import json
import re
import subprocess
import time

from growth import ANSWER_WITHIN, SESSION_TTL, answer_of, ask, each_of
from loads import WARMUP, command_of, started
from servers import fail, say

# Acquires in one request.
TOGETHER = 250
# Permits of one semaphore, or distinct locks.
KINDS = ("permits", "locks")
# The load, and for how long it runs before the session ends: once alone, and once until then.
CLIENTS, ALONE, END_AFTER = 64, 20, 3
# The end of a session takes its time; the load lasts longer.
END_WITHIN, ENDED_A_SECOND = 20, 10_000
LOOK_EVERY = 0.2
OVERLOADED = 503
ID_PREFIX = "01ARZ3NDEKTSV4RR"


def measured(args, tools, found):
    """The times to acquire locks, and permits; and the end of the session that has the locks."""
    found["count"] = args.locks
    for kind in KINDS:
        with started(args, "fairhold", tools) as cluster:
            leader = cluster.endpoints[cluster.leader_now()]
            session = ask(f"http://{leader}/v1/sessions", {"ttl": SESSION_TTL, "name": kind})
            if session is None:
                fail("cannot open a session")
            began = time.monotonic()
            work = lambda connection, first: acquire(args, connection, session["id"], kind, first)
            each_of(cluster, range(0, args.locks, TOGETHER), work)
            found[kind] = time.monotonic() - began
            say(f"acquired {args.locks} {kind} in {found[kind]:.0f} s")
            if kind == "locks":
                found["end"] = ending(args, cluster, leader, session["id"])


def ending(args, cluster, leader, session):
    """The longest time without a cycle of other clients while the session ends, and without that."""
    alone, _ = under_load(args, cluster, ALONE, lambda: None)
    within = END_WITHIN + args.locks / ENDED_A_SECOND
    figures, took = under_load(args, cluster, END_AFTER + within, lambda: end(leader, session, within))
    # Only the longest gaps of the run are known.
    gaps = [gap["ms"] for gap in figures["gaps"] if END_AFTER - 1 <= gap["at_seconds"] <= END_AFTER + took]
    pause = gaps[0] if gaps else figures["gaps"][-1]["ms"]
    say(f"the session ended in {took:.1f} s; longest pause of others {pause:.0f} ms, before {alone['longest_gap_ms']:.0f} ms")
    return {"seconds": took, "pause_ms": pause, "pause_alone_ms": alone["longest_gap_ms"]}


def acquire(args, connection, session, kind, first):
    """Acquires one lock or one permit with each call of a batch."""
    calls = []
    for number in range(first, min(first + TOGETHER, args.locks)):
        what = {"lock": f"bulk/{number}"} if kind == "locks" else {"lock": "bulk", "limit": args.locks, "permits": 1}
        calls.append({"acquire": {"id": f"{ID_PREFIX}{number:010}", "session": session, **what}})
    while calls:
        answers = answer_of(connection, "POST", "/v1/batch", {"calls": calls})["answers"]
        refused = [(call, answer) for call, answer in zip(calls, answers) if answer["status"] >= 300]
        for _, answer in refused:
            if answer["status"] != OVERLOADED:
                fail(f"an acquire failed: {json.dumps(answer)[:200]}")
        # The log grows faster than snapshots free it. A client repeats the same request after a pause.
        calls = [call for call, _ in refused]
        time.sleep(max((answer["retry_after"] for _, answer in refused), default=0))


def end(leader, session, within):
    """Ends the session, and waits until its last grant has ended. The answer may come before that."""
    began = time.monotonic()
    connection = http.client.HTTPConnection(leader, timeout=ANSWER_WITHIN)
    answer_of(connection, "DELETE", f"/v1/sessions/{session}")
    connection.close()
    while held(leader) > CLIENTS:
        if time.monotonic() - began > within:
            fail(f"a session has not ended after {within:.0f} s")
        time.sleep(LOOK_EVERY)


def held(leader):
    """How many grants are held."""
    metrics = ask(f"http://{leader}/metrics")["text"].decode()
    return int(float(re.search(r'^fairhold_grants\{state="held"\} (\S+)$', metrics, re.MULTILINE)[1]))


def under_load(args, cluster, seconds, work):
    """Does the work while others acquire and release locks, and returns their figures, and the seconds of the work."""
    command = command_of(args, "fairhold", "lock", CLIENTS, seconds, cluster.endpoints)
    load = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(WARMUP + END_AFTER)
    began = time.monotonic()
    work()
    took = time.monotonic() - began
    out, error = load.communicate()
    if load.returncode != 0:
        fail(f"the load failed: {error}")
    return json.loads(out.splitlines()[-1]), took
