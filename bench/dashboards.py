"""What open dashboards cost the node that serves them, and others that acquire and release locks meanwhile."""

import json
import os
import subprocess
import time

from loads import WARMUP, command_of, loaded, started, warmed
from servers import fail, say

# All dashboards are open on the leader, which has the most to do.
DASHBOARDS, CLIENTS = 100, 64
# Pairs of measurements without and beside the dashboards in each round: what they cost is less than the spread of one pair.
PAIRS = 3
# The leader's processor time without dashboards is measured for this long.
IDLE_SECONDS = 5
# Seconds that the dashboards are open before the locks begin, and after they end.
OPEN_BEFORE, OPEN_AFTER = 3, 2


def measured(args, tools, found):
    """The leader's processor time for the dashboards alone; then cycles without and beside them, in turn."""
    found.update(dashboards=DASHBOARDS, clients=CLIENTS, idle_cores=[], alone=[], browsers_cores=[], without=[], beside=[])
    with started(args, "fairhold", tools) as cluster:
        leader = cluster.leader_now()
        endpoints = [cluster.endpoints[leader]]
        warmed(args, "fairhold", "lock", CLIENTS, cluster, "dashboards")
        cycles = lambda: loaded(command_of(args, "fairhold", "lock", CLIENTS, args.seconds, cluster.endpoints))
        kinds = {"without": cycles, "beside": lambda: beside(args, endpoints, cycles, found)}
        for number in range(args.rounds):
            found["idle_cores"].append(cores_of(cluster.servers[leader]))
            found["alone"].append(loaded(command_of(args, "fairhold", "dashboard", DASHBOARDS, args.seconds, endpoints)))
            say(f"{DASHBOARDS} dashboards: {found['alone'][-1]['servers_cores']:.3f} of a core, without them {found['idle_cores'][-1]:.3f}")
            for pair in range(PAIRS):
                for kind in list(kinds)[:: -1 if (number + pair) % 2 else 1]:
                    found[kind].append(kinds[kind]())
                rates = {kind: found[kind][-1]["per_second"] for kind in kinds}
                say(f"{rates['beside']:.0f} cycles/s beside {DASHBOARDS} dashboards, {rates['without']:.0f} without")


def cores_of(server):
    """The cores that an idle server uses."""
    cpu, began = server.cpu(), time.monotonic()
    time.sleep(IDLE_SECONDS)
    return (server.cpu() - cpu) / (time.monotonic() - began)


def beside(args, endpoints, cycles, found):
    """The figures of the cycles while the dashboards are open."""
    seconds = OPEN_BEFORE + WARMUP + args.seconds + OPEN_AFTER
    command = command_of(args, "fairhold", "dashboard", DASHBOARDS, seconds, endpoints)
    began = time.monotonic()
    # Both outputs are short: they fit into their pipes.
    load = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(OPEN_BEFORE)
    try:
        figures = cycles()
    except BaseException:
        load.kill()
        load.wait()
        raise
    if os.wait4(load.pid, os.WNOHANG)[0]:
        fail("the dashboards were closed before the cycles ended")
    _, status, usage = os.wait4(load.pid, 0)
    load.returncode = os.waitstatus_to_exitcode(status)
    if load.returncode != 0:
        fail(f"the dashboards failed: {load.stderr.read()}")
    opened = json.loads(load.stdout.read().splitlines()[-1])
    if opened["failed"]:
        fail(f"{opened['failed']} calls of the dashboards failed: {opened['first_failure']}")
    found["browsers_cores"].append((usage.ru_utime + usage.ru_stime) / (time.monotonic() - began))
    return figures
