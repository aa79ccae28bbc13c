"""What the page's parts share: names, medians, and the better of ZooKeeper and etcd."""

import statistics

NAMES = {
    "fairhold": "Fairhold, HTTP",
    "fairhold-rust": "Fairhold, Rust client",
    "zookeeper": "ZooKeeper",
    "etcd": "etcd",
    "redis": "Redis, fsync",
    "redis-no-fsync": "Redis, no fsync",
}
# Fairhold is compared with the better of them.
OTHERS = ("zookeeper", "etcd")
RATE, P50, P99 = ("per_second",), ("latency_ms", "p50"), ("latency_ms", "p99")


def value(loads, load, system, path):
    """The median over the rounds, or None."""
    runs = loads.get(load, {}).get(system)
    return median_of(runs, *path) if runs else None


def median_of(runs, *path):
    """The median over the runs of the value at the path."""
    found = []
    for run in runs:
        for step in path:
            run = run[step]
        found.append(run)
    return statistics.median(found)


def better(loads, load, path=RATE, best=max, others=OTHERS):
    """The name and the figure of the better of the others, or None for both."""
    theirs = {other: value(loads, load, other, path) for other in others}
    theirs = {other: figure for other, figure in theirs.items() if figure}
    name = best(theirs, key=theirs.get) if theirs else None
    return name, theirs.get(name)


def short(number):
    """The number with three significant digits."""
    if number >= 1000:
        return f"{number:,.0f}"
    return f"{number:.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def mib(number):
    return f"{number / 1024 / 1024:,.0f} MiB"


def watcher_costs(watch):
    """The servers' time, in µs, for one event to one more watcher: each number of watchers compared with the next lower one."""
    sizes = sorted(int(count) for count in watch)
    found = []
    for few, many in zip(sizes, sizes[1:]):
        (cpu_few, told_few), (cpu_many, told_many) = ([median_of(watch[str(size)], field) for field in ("servers_cpu_seconds", "events")] for size in (few, many))
        if told_many > told_few:
            found.append((many, (cpu_many - cpu_few) / (told_many - told_few) * 1e6))
    return found
