"""The cost of a cycle while very many locks are held, and whether their memory is freed after their release."""

import contextlib
import http.client
import json
import threading
import time

from servers import LOOK_EVERY, Fairhold, fail, http as ask, say

FEW, MORE = 10, 10_000
# Locks of one acquire: the maximum. They last as long as their session, which outlives the run.
TOGETHER = 64
SESSION_TTL = "1h"
CONNECTIONS = 8
ANSWER_WITHIN = 60
SNAPSHOT_WITHIN = 60.0
SNAPSHOT_AGAIN_AFTER = 1.0
# The default budget, an eighth of the memory, is too small on a machine of 24 GiB for a million held locks and the cycles beside them.
STATE_BYTES_MAX = 4 * 1024**3
# Two short runs may differ by more than a tenth, so there are more of them than of the other loads.
TURNS_A_ROUND = 2
# Memory counts as freed when this share of its growth is free again.
BACK = 0.9


def measured(args, tools, found, load):
    """Rates with few and many held locks, in turn, with a cluster for each number, all running at the same time. Then the memory."""
    with contextlib.ExitStack() as stack:
        clusters, grants, sizes = {}, {}, (FEW, MORE, args.locks)
        for index, count in enumerate(sizes):
            cluster = Fairhold(tools, args.dir / f"beside-{count}", args.port + 100 * index)
            cluster.flags = ("--state-bytes-max", STATE_BYTES_MAX)
            clusters[count] = stack.enter_context(cluster)
            began = time.monotonic()
            grants[count] = filled(cluster, count)
            found["filled_seconds"] = time.monotonic() - began
            snapshot(cluster)
        say(f"growth: acquired {args.locks} locks in {found['filled_seconds']:.0f} s")
        for number in range(args.rounds * TURNS_A_ROUND):
            turn = number % len(sizes)
            for count in sizes[turn:] + sizes[:turn]:
                figures = load(clusters[count], f"turn {number + 1}: fairhold lock 64 with {count} held locks")
                found.setdefault("rates", {}).setdefault(str(count), []).append(figures)
        memory(args, clusters, grants[args.locks], found)


def memory(args, clusters, grants, found):
    """Resident memory with all locks and after their release, compared with a cluster that had the same load and ten locks."""
    many = clusters[args.locks]
    few, full = clusters[FEW].resident(), many.resident()
    began = time.monotonic()
    each_of(many, grants, lambda connection, grant: answer_of(connection, "DELETE", f"/v1/grants/{grant}"))
    released = time.monotonic() - began
    snapshot(many)
    began, after = time.monotonic(), many.resident()
    while full - after < BACK * (full - few) and time.monotonic() - began < args.after_load:
        time.sleep(LOOK_EVERY)
        after = many.resident()
    waited = time.monotonic() - began
    found["memory"] = {"locks": args.locks, "nodes": many.nodes, "few": few, "full": full, "after": after, "waited_seconds": waited, "released_seconds": released}
    mib = lambda number: number / 1024 / 1024
    say(f"growth: {mib(full):.0f} MiB with all locks, {mib(after):.0f} MiB {waited:.0f} s after they were released, {mib(few):.0f} MiB with ten")


def filled(cluster, count):
    """Acquires `count` locks for one session, and returns the ids of the grants."""
    session = ask(f"http://{cluster.endpoints[cluster.leader_now()]}/v1/sessions", {"ttl": SESSION_TTL, "name": "beside"})
    if session is None:
        fail("cannot open a session")
    grants = []

    def take(connection, first):
        locks = [{"name": f"beside/{lock}"} for lock in range(first, min(first + TOGETHER, count))]
        grants.append(answer_of(connection, "POST", "/v1/locks", {"session": session["id"], "locks": locks})["id"])

    each_of(cluster, range(0, count, TOGETHER), take)
    return grants


def each_of(cluster, things, work):
    """Does the work for each thing, over some connections to the leader."""
    host, todo, problems = cluster.endpoints[cluster.leader_now()], iter(list(things)), []

    def worker():
        connection = http.client.HTTPConnection(host, timeout=ANSWER_WITHIN)
        try:
            # The iterator of a list gives each item to one thread only.
            for thing in todo:
                work(connection, thing)
        except Exception as problem:  # Otherwise nobody sees an exception of a thread.
            problems.append(problem)
        finally:
            connection.close()

    workers = [threading.Thread(target=worker) for _ in range(CONNECTIONS)]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join()
    if problems:
        raise problems[0]


def answer_of(connection, method, path, body=None):
    """The JSON of a successful answer."""
    connection.request(method, path, None if body is None else json.dumps(body), {} if body is None else {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status >= 300:
        fail(f"{method} {path.split('/')[2]}: {answer.status} {text[:200].decode(errors='replace')}")
    return json.loads(text) if text else None


def snapshot(cluster):
    """Each node stores a snapshot now, so none is due later because of earlier writes, and the log before it is removed."""
    for endpoint in cluster.endpoints:
        until = time.monotonic() + SNAPSHOT_WITHIN
        while ask(f"http://{endpoint}/v1/cluster/snapshot", {}, SNAPSHOT_WITHIN) is None:
            if time.monotonic() > until:
                fail(f"{endpoint} did not store a snapshot within {SNAPSHOT_WITHIN:.0f} s")
            time.sleep(SNAPSHOT_AGAIN_AFTER)
