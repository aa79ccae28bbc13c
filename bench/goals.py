"""The page's table of goals: Fairhold compared with the better of ZooKeeper and etcd, with the log alone, and with absolute figures."""

import statistics

from figures import NAMES, OTHERS, P50, P99, RATE, better, median_of, mib, short, value, watcher_costs

# Of a node of the large tree.
VALUE_BYTES = 100
THE_BETTER = "against the better of ZooKeeper and etcd"


class Rows:
    """The lines of the table: each ratio with its two figures and its goal."""

    def __init__(self, loads):
        self.loads, self.lines = loads, []

    def add(self, what, ratio, than, pair, goal):
        sign, bound = goal.split()
        is_met = ratio >= float(bound) if sign == "≥" else ratio <= float(bound)
        self.lines.append(f"| {what} | **{ratio:.2f}** × {than} | {pair} | {goal} | {'met' if is_met else 'missed'} |")

    def against(self, what, load, goal, system="fairhold", path=RATE, best=max, others=OTHERS, unit=""):
        """A figure compared with the best of the others."""
        ours, (name, theirs) = value(self.loads, load, system, path), better(self.loads, load, path, best, others)
        if ours is not None and theirs:
            self.add(what, ours / theirs, NAMES[name], f"{short(ours)} / {short(theirs)}{unit}", goal)

    def bound(self, what, measured, goal, unit):
        """A figure with an absolute upper limit."""
        if measured is not None:
            self.add(what, measured / goal, "the goal", f"{short(measured)} / {short(goal)} {unit}", "≤ 1")


def table(figures):
    rows, commit = Rows(figures["loads"]), bare_commit(figures)
    cycles(rows, commit)
    hand_overs(rows, commit)
    rows.against(f"linearizable reads/s, 64 clients, {THE_BETTER}", "kv-read 64", "≥ 5")
    rows.against(f"local reads/s, 64 clients, {THE_BETTER}", "kv-local-read 64", "≥ 4")
    failover_and_sessions(rows, figures)
    tree(rows, figures["tree"])
    growth(rows, figures["growth"])
    bulk(rows, figures["bulk"])
    watch_and_elections(rows, figures)
    if not rows.lines:
        return ""
    log = ""
    if commit:
        spread = median_of(figures["log"], *P99)
        log = f"In the same run, one durable commit of the replicated log alone took {commit:.2f} ms (p50; p99 {spread:.2f} ms):\n"
        log += "`fairhold bench log`, three nodes in one process, without HTTP.\n\n"
    lines = ["## Ratios\n", log + "| | ratio | from | goal | |", "|---|---|---|---|---|", *rows.lines]
    lines.append("\nWhy each missed goal is missed, and what it would take: [performance](internals/performance.md).")
    return "\n".join(lines) + "\n"


def bare_commit(figures):
    """The p50, in ms, of one durable commit of the log alone, or None."""
    return median_of(figures["log"], *P50) if figures["log"] else None


def cycles(rows, commit):
    each = ("servers_cpu_micros_each",)
    rows.bound("servers' time for a cycle over HTTP, 64 clients", value(rows.loads, "lock 64", "fairhold", each), 110, "µs")
    rows.bound("servers' time for a cycle of the Rust client, 256 tasks", value(rows.loads, "lock 256", "fairhold-rust", each), 40, "µs")
    for clients in (64, 256):
        load = f"lock {clients}"
        rows.against(f"cycles/s over HTTP, {clients} clients, {THE_BETTER}", load, "≥ 4.5")
        rows.against(f"cycles/s of the Rust client, {clients} clients, {THE_BETTER}", load, "≥ 9", "fairhold-rust")
        redis = f"cycles/s of the Rust client, {clients} clients, against one Redis with fsync"
        rows.against(redis, load, "≥ 1", "fairhold-rust", others=["redis"])
        rows.against(f"p99 of a cycle over HTTP, {clients} clients, {THE_BETTER}", load, "≤ 0.25", path=P99, best=min, unit=" ms")
    cycle = value(rows.loads, "lock 1", "fairhold", P50)
    if commit and cycle:
        rows.add("p50 of a cycle of one client", cycle / (2 * commit), "two durable commits", f"{cycle:.2f} / {2 * commit:.2f} ms", "≤ 1.3")


def hand_overs(rows, commit):
    for clients in (32, 128, 1000):
        rate = value(rows.loads, f"contended {clients}", "fairhold", RATE)
        if commit and rate:
            each = 1000 / rate
            rows.add(f"a hand-over, {clients:,} clients", each / commit, "one durable commit", f"{each:.2f} / {commit:.2f} ms", "≤ 1.8")
    for clients, goal in ((8, "≥ 2"), (32, "≥ 2.5"), (128, "≥ 2.5"), (1000, "≥ 2.5")):
        rows.against(f"hand-overs/s, {clients:,} clients, {THE_BETTER}", f"contended {clients}", goal)
    for clients in (8, 32, 128):
        p50, p99 = (value(rows.loads, f"contended {clients}", "fairhold", path) for path in (P50, P99))
        if p50:
            rows.add(f"p99 of the wait, {clients} clients", p99 / p50, "its p50", f"{short(p99)} / {short(p50)} ms", "≤ 1.3")


def failover_and_sessions(rows, figures):
    gaps, cost = figures["failover"].get("fairhold"), figures["sessions"].get("fairhold")
    if gaps:
        rows.bound("time without a write after kill -9 of the leader, median", statistics.median(gaps), 48, "ms")
        rows.bound(f"the same, worst of {len(gaps)}", max(gaps), 74, "ms")
    if cost:
        rows.bound(f"memory of an idle session, of {cost['sessions']:,}, on all nodes together", cost["bytes_each"] / 1024, 1.5, "KiB")
        rows.bound("processor time of all idle sessions", cost["cores"] * 100, 4, "% of a core")


def tree(rows, of):
    if of:
        rows.bound("a node of a large tree, without its value", of["bytes_each"] - VALUE_BYTES, 300, "bytes")
        rows.bound(f"ready again with {of['nodes']:,} nodes", of["ready_seconds"], 2, "s")


def growth(rows, of):
    if of.get("rates"):
        rates = {count: median_of(runs, *RATE) for count, runs in of["rates"].items()}
        least, most = min(rates, key=rates.get), max(rates, key=rates.get)
        held = ", ".join(f"{int(count):,}" for count in rates)
        pair = f"{short(rates[least])} / {short(rates[most])}"
        rows.add(f"cycles/s with {held} held locks: the lowest", rates[least] / rates[most], f"with {int(most):,}", pair, "≥ 0.9")
    if of.get("memory"):
        memory = of["memory"]
        grown, back = (memory["full"] - memory[field] for field in ("few", "after"))
        each = grown / memory["nodes"] / memory["locks"]
        rows.bound(f"a held lock, of {memory['locks']:,}: memory on one node", each, 800, "bytes")
        what = f"memory freed {memory['waited_seconds']:.0f} s after the release of {memory['locks']:,} locks"
        rows.add(what, back / grown, "the memory that they took", f"{mib(back)} / {mib(grown)}", "≥ 0.9")


def bulk(rows, of):
    if of.get("permits"):
        pair = f"{short(of['permits'])} / {short(of['locks'])} s"
        rows.add(f"time to acquire {of['count']:,} permits of one semaphore", of["permits"] / of["locks"], "as many distinct locks", pair, "≤ 1.1")
    if of.get("end"):
        rows.bound(f"longest pause of others while a session with {of['count']:,} locks ends", of["end"]["pause_ms"], 50, "ms")


def watch_and_elections(rows, figures):
    marginal = watcher_costs(figures["watch"])
    if len(marginal) > 1 and marginal[0][1] > 0:
        (few, first), (many, last) = marginal[0], marginal[-1]
        pair = f"{short(last)} / {short(first)} µs"
        rows.add(f"servers' time for one more watcher, up to {many:,}", last / first, f"up to {few}", pair, "≤ 1.1")
    of = figures["elections"]
    if of:
        count = of["after"] - of["before"]
        verdict = "missed" if count else "met"
        rows.lines.append(f"| elections in {of['seconds']:g} s at full load | **{count}** | term {of['before']}, then {of['after']} | none | {verdict} |")
