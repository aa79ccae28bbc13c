"""What a cycle costs beside very many locks, and whether their memory comes back when they are gone."""

import contextlib
import http.client
import json
import threading
import time

from servers import LOOK_EVERY, Fairhold, fail, http as ask, say

LOCKS = (10, 10_000, 1_000_000)
# Locks of one acquire: as many as there may be. They stay for as long as their session, which outlives the run.
TOGETHER = 64
SESSION_TTL = "1h"
CONNECTIONS = 8
ANSWER_WITHIN = 60
SNAPSHOT_WITHIN = 60.0
SNAPSHOT_AGAIN_AFTER = 1.0
# A difference of a tenth is less than what two short runs differ by: more of them than of the other loads.
TURNS_A_ROUND = 2
# The memory is back when so much of what it grew by is free again.
BACK = 0.9


def measured(args, tools, found, load):
    """Rates beside few and many locks, in turns: a cluster for each number of them, all up at the same time. Then the memory."""
    with contextlib.ExitStack() as stack:
        clusters, grants = {}, {}
        for index, count in enumerate(LOCKS):
            cluster = Fairhold(tools, args.dir / f"beside-{count}", args.port + 100 * index)
            clusters[count] = stack.enter_context(cluster)
            began = time.monotonic()
            grants[count] = filled(cluster, count)
            found["filled_seconds"] = time.monotonic() - began
            snapshot(cluster)
        say(f"growth: {LOCKS[-1]} locks are held after {found['filled_seconds']:.0f} s")
        for number in range(args.rounds * TURNS_A_ROUND):
            turn = number % len(LOCKS)
            for count in LOCKS[turn:] + LOCKS[:turn]:
                figures = load(clusters[count], f"turn {number + 1}: fairhold lock 64 beside {count} locks")
                found.setdefault("rates", {}).setdefault(str(count), []).append(figures)
        memory(args, clusters, grants[LOCKS[-1]], found)


def memory(args, clusters, grants, found):
    """What is resident with all locks, and when they are gone, against a cluster that had the same load and no more than ten."""
    many = clusters[LOCKS[-1]]
    few, full = clusters[LOCKS[0]].resident(), many.resident()
    began = time.monotonic()
    each_of(many, grants, lambda connection, grant: answer_of(connection, "DELETE", f"/v1/grants/{grant}"))
    released = time.monotonic() - began
    snapshot(many)
    began, after = time.monotonic(), many.resident()
    while full - after < BACK * (full - few) and time.monotonic() - began < args.after_load:
        time.sleep(LOOK_EVERY)
        after = many.resident()
    waited = time.monotonic() - began
    found["memory"] = {"locks": LOCKS[-1], "few": few, "full": full, "after": after, "waited_seconds": waited, "released_seconds": released}
    mib = lambda number: number / 1024 / 1024
    say(f"growth: {mib(full):.0f} MiB with all locks, {mib(after):.0f} MiB {waited:.0f} s after they were released, {mib(few):.0f} MiB beside ten")


def filled(cluster, count):
    """Takes so many locks, for one session. Answers with the ids of their grants."""
    session = ask(f"http://{cluster.endpoints[cluster.leader_now()]}/v1/sessions", {"ttl": SESSION_TTL, "name": "beside"})
    if session is None:
        fail("no session can be opened")
    grants = []

    def take(connection, first):
        locks = [{"name": f"beside/{lock}"} for lock in range(first, min(first + TOGETHER, count))]
        grants.append(answer_of(connection, "POST", "/v1/locks", {"session": session["id"], "locks": locks})["id"])

    each_of(cluster, range(0, count, TOGETHER), take)
    return grants


def each_of(cluster, things, work):
    """Does it for each of them, over some connections to the leader."""
    host, todo, problems = cluster.endpoints[cluster.leader_now()], iter(list(things)), []

    def worker():
        connection = http.client.HTTPConnection(host, timeout=ANSWER_WITHIN)
        try:
            # A list's iterator gives each to one thread only.
            for thing in todo:
                work(connection, thing)
        except Exception as problem:  # What a thread raises is seen by nobody otherwise.
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
    """The JSON of an answer that says yes."""
    connection.request(method, path, None if body is None else json.dumps(body), {} if body is None else {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status >= 300:
        fail(f"{method} {path.split('/')[2]}: {answer.status} {text[:200].decode(errors='replace')}")
    return json.loads(text) if text else None


def snapshot(cluster):
    """Each node stores one now: none comes later because of what was done before, and the log that it makes needless goes."""
    for endpoint in cluster.endpoints:
        until = time.monotonic() + SNAPSHOT_WITHIN
        while ask(f"http://{endpoint}/v1/cluster/snapshot", {}, SNAPSHOT_WITHIN) is None:
            if time.monotonic() > until:
                fail(f"no snapshot was stored by {endpoint} within {SNAPSHOT_WITHIN:.0f} s")
            time.sleep(SNAPSHOT_AGAIN_AFTER)
