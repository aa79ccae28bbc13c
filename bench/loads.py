"""Loads each system in turn, over several rounds. Before its first turn with a load, a system runs it until its rate is flat."""

import contextlib
import json
import os
import subprocess
import time

from servers import Etcd, Fairhold, Redis, RedisWithoutFsync, ZooKeeper, attempt, fail, say

# Each column: its servers, and the name by which the load knows it.
SYSTEMS = {
    "fairhold": (Fairhold, "http"),
    "fairhold-rust": (Fairhold, "rust"),
    "zookeeper": (ZooKeeper, "zookeeper"),
    "etcd": (Etcd, "etcd"),
    "redis": (Redis, "redis"),
    "redis-no-fsync": (RedisWithoutFsync, "redis"),
}
REPLICATED = ["fairhold", "zookeeper", "etcd"]
# What is measured, with how many clients, and of which systems (None: all). The bare log is measured near the loads that are
# compared with it.
LOADS = [
    ("log", 1, []),
    ("lock", 1, None),
    ("lock", 64, None),
    ("lock", 256, None),
    ("log", 1, []),
    ("contended", 8, None),
    ("contended", 32, None),
    ("contended", 128, None),
    ("contended", 1000, REPLICATED),
    ("log", 1, []),
    ("kv-write", 64, None),
    ("kv-write", 256, None),
    ("kv-read", 64, None),
    ("kv-local-read", 64, REPLICATED),
]
PORTS_EACH = 100
# Of each measurement: new connections, and servers that were idle while others were measured.
WARMUP = 2.0
# In a long queue, the first client must have its second turn before waits are typical.
QUEUE_WARMUP_EACH = 0.003
# A rate is flat when it differs by at most this share over so many windows of this length, each with a short warm-up.
FLAT, WINDOWS, WINDOW, WINDOW_WARMUP = 0.1, 3, 2.0, 0.5
# Before a measurement, idle servers use at most this much of a core for this long. An upper limit for the wait for that.
SETTLED_CORES, SETTLED_SECONDS, SETTLED_WITHIN = 0.15, 1.0, 20.0


def command_of(args, system, workload, clients, seconds, endpoints, warmup=WARMUP):
    """The load of one workload on one system."""
    if workload == "contended":
        warmup += clients * QUEUE_WARMUP_EACH
    shape = ["--clients", str(clients), "--seconds", str(seconds), "--warmup", str(warmup)]
    if not system.startswith("fairhold"):
        name = SYSTEMS[system][1]
        return [args.load, name, workload, "--endpoint", ",".join(endpoints), *shape]
    where = ["--endpoint", ",".join(f"http://{endpoint}" for endpoint in endpoints), "--output", "json"]
    if workload == "sessions":
        return [args.fairhold, "bench", "sessions", "--sessions", str(clients), "--seconds", str(seconds), "--ttl", "30s", *where]
    if workload == "dashboard":
        return [args.fairhold, "bench", "dashboard", *shape, *where]
    words = ["kv", "--operation", workload.removeprefix("kv-")] if workload.startswith("kv-") else [workload]
    return [args.fairhold, "bench", *words, "--client", SYSTEMS[system][1], *shape, *where]


def loaded(command):
    """The figures that a load prints when it ends."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail(done.stderr.strip()[:500])
    return json.loads(done.stdout.splitlines()[-1])


def started(args, system, tools):
    port = args.port + PORTS_EACH * list(SYSTEMS).index(system)
    return SYSTEMS[system][0](tools, args.dir / system, port)


def measure(args, system, workload, clients, cluster, what, idle=()):
    """The figures of one load, with the servers' processor use meanwhile, and that of idle clusters."""
    used = lambda: (cluster.cpu(), sum(other.cpu() for other in idle))
    (before, before_idle), began = used(), time.monotonic()
    figures = loaded(command_of(args, system, workload, clients, args.seconds, cluster.endpoints))
    (after, after_idle), took = used(), time.monotonic() - began
    figures["idle_cores"] = (after_idle - before_idle) / took
    figures["servers_cpu_micros_each"] = (after - before) / max(figures["in_all"], 1) * 1e6
    p50, p99 = figures["latency_ms"]["p50"], figures["latency_ms"]["p99"]
    say(f"{what}: {figures['per_second']:.0f}/s, p50 {p50:.2f} ms, p99 {p99:.2f} ms")
    if figures["failed"]:
        say(f"{what}: {figures['failed']} failed, first failure: {figures['first_failure']}")
    return figures


def warmed(args, system, workload, clients, cluster, what):
    """Runs the load until its rate is flat, within the system's limits of time."""
    rates, began, is_flat, took = [], time.monotonic(), False, 0.0
    # Opening many connections takes a while, in which nothing gets warm.
    at_least = cluster.warm_at_least / (WINDOW_WARMUP + WINDOW)
    while took < min(args.warm_at_most, cluster.warm_at_most) and not (is_flat and len(rates) >= at_least):
        figures = loaded(command_of(args, system, workload, clients, WINDOW, cluster.endpoints, WINDOW_WARMUP))
        rates.append(figures["per_second"])
        last, took = rates[-WINDOWS:], time.monotonic() - began
        is_flat = len(last) == WINDOWS and max(last) - min(last) <= FLAT * max(last)
    say(f"{what}: warmed for {took:.0f} s, {'flat' if is_flat else 'not flat'}: {', '.join(f'{rate:.0f}' for rate in rates)}")
    return {"seconds": took, "is_flat": is_flat, "rates": rates}


def rounds(args, parts, systems, tools, figures):
    """All loads on all systems. Their servers start once and run to the end, so they stay warm while others are loaded."""
    loads = [load for load in LOADS if load[0].split("-")[0] in parts]
    needed = [system for system in systems if any(load[2] is None or system in load[2] for load in loads)]
    with contextlib.ExitStack() as stack:
        clusters = running(args, needed, tools, stack, figures["problems"])
        for number in range(args.rounds):
            for place, load in enumerate(loads):
                if load[0] == "log":
                    attempt(f"the bare log in round {number + 1}", figures["problems"], lambda: bare_log(args, figures["log"]))
                else:
                    one_load(args, load, number, number + place, clusters, figures)
            if "lock" in parts and "fairhold" in clusters:
                profile = lambda: profiles(args, clusters["fairhold"], figures["profile"])
                attempt(f"the profile in round {number + 1}", figures["problems"], profile)


def running(args, systems, tools, stack, problems):
    """The running servers of each system. Columns with the same kind of servers share them."""
    kinds = {}
    for system in systems:
        kind = SYSTEMS[system][0]
        if kind not in kinds:
            start = lambda: kinds.update({kind: stack.enter_context(started(args, system, tools))})
            attempt(f"the start of {system}", problems, start)
    return {system: kinds[SYSTEMS[system][0]] for system in systems if SYSTEMS[system][0] in kinds}


def one_load(args, load, number, turn, clusters, figures):
    """One load in one round: each system's turn, in rotating order."""
    workload, clients, of = load
    systems = [system for system in clusters if of is None or system in of]
    for index in range(len(systems)):
        system = systems[(turn + index) % len(systems)]
        what = f"round {number + 1}: {system} {workload} {clients}"
        attempt(what, figures["problems"], lambda: one_turn(args, system, load, clusters, what, figures))


def one_turn(args, system, load, clusters, what, figures):
    """Warms the system up for this load, if that was not done yet, and measures it."""
    workload, clients, _ = load
    name, cluster = f"{workload} {clients}", clusters[system]
    warm = figures["warm"].setdefault(name, {})
    if system not in warm:
        warm[system] = warmed(args, system, workload, clients, cluster, what)
    idle = {other for other in clusters.values() if other is not cluster}
    settle(idle)
    run = measure(args, system, workload, clients, cluster, what, idle)
    figures["loads"].setdefault(name, {}).setdefault(system, []).append(run)


def settle(idle):
    """Waits until nothing of the previous system's load is left: writes in the kernel, and work of its servers."""
    os.sync()
    used = lambda: sum(cluster.cpu() for cluster in idle)
    before, until = used(), time.monotonic() + SETTLED_WITHIN
    while time.monotonic() < until:
        time.sleep(SETTLED_SECONDS)
        after = used()
        if after - before <= SETTLED_CORES * SETTLED_SECONDS:
            return
        before = after


def profiles(args, cluster, figures):
    """Where the time of a cycle goes, with one client and with many."""
    for clients in (1, 64):
        command = command_of(args, "fairhold", "lock", clients, args.seconds, cluster.endpoints)
        figures.setdefault(str(clients), []).append(loaded([*command, "--profile"]))


def bare_log(args, figures):
    """Durable commits of the replicated log alone, one at a time."""
    folder = args.dir / "log"
    command = [args.fairhold, "bench", "log", "--seconds", str(args.seconds), "--warmup", str(WARMUP), "--dir", folder]
    command += ["--port", str(args.port + 590), "--output", "json"]
    found = loaded(command)
    say(f"bare log: one durable commit in {found['latency_ms']['p50']:.2f} ms (p50)")
    figures.append(found)
