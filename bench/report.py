"""Writes the page with the figures, and its charts. It computes medians and ratios, and states only what was measured."""

import math
import re
import statistics
import textwrap

import goals
from bulk import ALONE
from figures import NAMES, P50, P99, RATE, better, median_of, mib, short, value, watcher_costs
from loads import FLAT, WARMUP, WINDOW, WINDOWS
from machine import FSYNCS
from servers import Cluster, ZooKeeper

COLOURS = ["#1b6ca8", "#64a6d6", "#c8553d", "#e0a030", "#7a7a7a", "#b8b8b8"]
TITLES = {
    "lock": "cycles/s",
    "contended": "hand-overs/s",
    "kv-write": "small writes/s",
    "kv-read": "linearizable reads/s",
    "kv-local-read": "local reads/s",
}


def write(figures, page):
    """Writes the page, and its charts in a folder with the same name."""
    pictures = page.with_suffix("")
    loads = figures["loads"] = {load: by_system for load, by_system in figures["loads"].items() if any(by_system.values())}
    systems = [system for system in NAMES if any(by_system.get(system) for by_system in loads.values())]
    parts = [head(figures)]
    if loads:
        parts += [table(figures, systems), picture_links(loads, systems, pictures)]
    parts.append(goals.table(figures))
    if loads:
        parts.append(processors(loads, systems))
    parts += [part(figures) for part in (profile, failover, elections, sessions, growth, bulk, watch, dashboards, tree, problems, how)]
    page.write_text(wrapped("\n".join(part for part in parts if part)))


def update_dashboards(figures, page):
    """Replaces the section about dashboards in the page, or adds it before the large tree, and says when it was measured. It
    keeps the rest: no ratio of the page needs these figures."""
    section = dashboards(figures)
    if not section:
        return
    title, rest = section.split("\n", 1)
    m, command = figures["machine"], figures["command"]
    when = f"Measured after the rest of this page, with `{command}`: {m['when']}, load average {m['load_average']:.2f} before; {figures['versions']['Fairhold']}."
    section = wrapped(f"{title}\n\n{when}\n{rest}")
    sections = re.split(r"^(?=## )", page.read_text(), flags=re.MULTILINE)
    kept = [other for other in sections if not other.startswith(title)]
    place = next((place for place, other in enumerate(kept) if other.startswith("## A large tree")), len(kept))
    page.write_text("".join([*kept[:place], f"{section.rstrip()}\n\n", *kept[place:]]))


def wrapped(text):
    """The same text with lines of at most 100 columns; tables, code and images stay as they are."""
    lines = []
    for line in text.split("\n"):
        if len(line) <= 100 or line.startswith(("|", "    ", "!")):
            lines.append(line)
        else:
            lines += textwrap.wrap(line, 100, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def head(figures):
    m = figures["machine"]
    versions = "".join(f"- {name}: {version}\n" for name, version in figures["versions"].items())
    return f"""# Benchmarks

`bench/run` writes this page from its measurements; do not edit it by hand.
[bench/README.md](../bench/README.md) explains what is compared, and how.

- Machine: {m["cpu"]}, {m["cores"]} cores, {m["memory_gib"]} GiB; Linux {m["kernel"]}; data on {m["file_system"]}.
  An append of 4 KiB with fdatasync takes {m["fdatasync_ms"]} ms (median of {FSYNCS}).
  Servers and load share the machine.
- Fairhold's program: {"`./fairhold dist` built it (profile `dist`)" if figures["is_dist"] else "given with `--fairhold`"}.
- Time: {m["when"]}; the load average before the run was {m["load_average"]:.2f}.
{versions}
{figures["rounds"]} round{"" if figures["rounds"] == 1 else "s"} of {figures["seconds"]:g} s for each load.
In each round, all systems take turns with each load, in rotating order.
{warmth(figures)}A figure is the median of the rounds; the range after a rate is that of the rounds.
Times in ms are p50 / p99, each the median of the rounds.
"""


def warmth(figures):
    """How long the systems were warmed up, and what their idle servers cost."""
    warm = {(system, load): of for load, by_system in figures["warm"].items() for system, of in by_system.items()}
    if not warm or not figures["loads"]:
        return ""
    cold = [f"{NAMES[system]} with {load.replace(' ', ', ')}" for (system, load), of in warm.items() if not of["is_flat"]]
    took = {"ZooKeeper": [], "the others": []}
    for (system, _), of in warm.items():
        took["ZooKeeper" if system == "zookeeper" else "the others"].append(of["seconds"])
    times = " and ".join(f"{min(times):.0f} to {max(times):.0f} s for {whose}" for whose, times in took.items() if times)
    idle = [run["idle_cores"] for by_system in figures["loads"].values() for runs in by_system.values() for run in runs]
    return f"""Servers start once and keep running.
Before its first turn with a load, each system runs it until its rate is flat:
the last {WINDOWS} windows of {WINDOW:g} s differ by at most {FLAT * 100:g} %.
ZooKeeper's JVM runs it for {ZooKeeper.warm_at_least:g} s at least and {ZooKeeper.warm_at_most:g} s at most, the others for {Cluster.warm_at_least:g} to {Cluster.warm_at_most:g} s.
The last window may end after the limit. That took {times}. Not flat: {"; ".join(cold) if cold else "none"}.
Each measurement starts {WARMUP:g} s after its load, longer in a long queue.
The idle servers of other systems used {statistics.median(idle) * 100:.1f} % of a core meanwhile (median; at most {max(idle) * 100:.1f} %).
"""


def table(figures, systems):
    loads = figures["loads"]
    lines = ["## Rates and times\n", "| | " + " | ".join(NAMES[system] for system in systems) + " | HTTP, to the better of ZooKeeper and etcd |"]
    lines.append("|---" * (len(systems) + 2) + "|")
    for load in loads:
        workload, clients = load.rsplit(" ", 1)
        cells = []
        for system in systems:
            rate = value(loads, load, system, RATE)
            if rate is None:
                cells.append("–")
                continue
            rates = [run["per_second"] for run in loads[load][system]]
            spread = f" ({short(min(rates))} to {short(max(rates))})" if len(rates) > 1 else ""
            p50, p99 = (value(loads, load, system, path) for path in (P50, P99))
            failed = sum(run["failed"] for run in loads[load][system])
            cells.append(f"**{short(rate)}**{spread}<br>{short(p50)} / {short(p99)} ms" + (f"<br>{failed} failed" if failed else ""))
        ours, (name, theirs) = value(loads, load, "fairhold", RATE), better(loads, load)
        cells.append(f"{ours / theirs:.2f} × {NAMES[name]}" if ours and theirs else "–")
        lines.append(f"| {TITLES[workload]}, {clients} client{'' if clients == '1' else 's'} | " + " | ".join(cells) + " |")
    lines += ["", "A cycle is an acquire and a release; each client has its own lock, and the time is that of both together."]
    lines += ["For hand-overs, all clients want one lock, and the time is the wait for it."]
    lines += ["Fairhold, ZooKeeper and etcd answer when a majority of three has the write on disk, and hand over in the order of the requests."]
    lines += ["Redis is one server: its waiters retry after a random time of up to 10 ms, and the first to retry after a release is next."]
    return "\n".join(lines) + "\n"


def picture_links(loads, systems, pictures):
    pictures.mkdir(parents=True, exist_ok=True)
    links = []
    for workload in ("lock", "contended", "kv-write"):
        rows = [load for load in loads if load.rsplit(" ", 1)[0] == workload]
        if rows:
            path = pictures / f"{workload}.svg"
            path.write_text(bars(f"{TITLES[workload]} (logarithmic)", rows, systems, loads))
            links.append(f"![{TITLES[workload]} of each system]({pictures.name}/{path.name})")
    return "\n".join(links) + "\n"


def bars(title, rows, systems, loads):
    """Groups of bars on a logarithmic axis, as SVG."""
    rates = [value(loads, row, system, RATE) for row in rows for system in systems]
    most = max(rate for rate in rates if rate)
    least = min(rate for rate in rates if rate)
    low, high = math.floor(math.log10(max(least, 1))), math.ceil(math.log10(max(most, 10)))
    high = max(high, low + 1)
    left, top, height, bar, gap = 60, 50, 240, 22, 26
    group = bar * len(systems) + gap
    width = left + group * len(rows) + 190
    y = lambda rate: top + height * (1 - (math.log10(max(rate, 1)) - low) / (high - low))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top + height + 45}" font-family="sans-serif" font-size="12">']
    out.append(f'<rect width="100%" height="100%" fill="white"/><text x="{left}" y="24" font-size="15">{title}</text>')
    for power in range(low, high + 1):
        line = y(10**power)
        out.append(f'<path d="M{left} {line:.1f}H{left + group * len(rows)}" stroke="#ddd"/>')
        out.append(f'<text x="{left - 6}" y="{line + 4:.1f}" text-anchor="end">{10**power:,}</text>')
    for place, row in enumerate(rows):
        begin = left + gap / 2 + place * group
        for index, system in enumerate(systems):
            rate = value(loads, row, system, RATE)
            if rate is None:
                continue
            x, upper = begin + index * bar, y(rate)
            out.append(f'<rect x="{x:.1f}" y="{upper:.1f}" width="{bar - 3}" height="{top + height - upper:.1f}" fill="{COLOURS[index]}"><title>{NAMES[system]}: {short(rate)}</title></rect>')
        clients = row.rsplit(" ", 1)[1]
        out.append(f'<text x="{begin + bar * len(systems) / 2:.1f}" y="{top + height + 18}" text-anchor="middle">{clients} client{"" if clients == "1" else "s"}</text>')
    for index, system in enumerate(systems):
        line, x = top + 6 + index * 20, left + group * len(rows) + 14
        out.append(f'<rect x="{x}" y="{line}" width="12" height="12" fill="{COLOURS[index]}"/><text x="{x + 18}" y="{line + 11}">{NAMES[system]}</text>')
    return "\n".join(out) + "\n</svg>\n"


def profile(figures):
    """Where a cycle's time goes."""
    if not figures.get("profile"):
        return ""
    shapes = list(figures["profile"])
    lines = ["## Where the time of a cycle goes\n", "Mean times in ms, from socket to socket, all load at the leader (`fairhold bench lock --profile`)."]
    lines += ["Each part is from the leader's histograms; the first is the rest of what the client measured."]
    lines += ["With many clients, several cycles share a log entry and a disk write; these are means over cycles.\n"]
    lines += ["| | " + " | ".join(f"{clients} client{'' if clients == '1' else 's'}" for clients in shapes) + " |", "|---" * (len(shapes) + 1) + "|"]
    median = lambda clients, index: statistics.median(run["profile_ms"][index]["ms"] for run in figures["profile"][clients])
    for index, part in enumerate(figures["profile"][shapes[0]][0]["profile_ms"]):
        lines.append(f"| {part['part']} | " + " | ".join(f"{median(clients, index):.3f}" for clients in shapes) + " |")
    mean = lambda clients: statistics.median(run["latency_ms"]["mean"] for run in figures["profile"][clients])
    lines.append("| **the whole cycle, as the client measured it** | " + " | ".join(f"**{mean(clients):.3f}**" for clients in shapes) + " |")
    lines.append("\nEach line is the median of the rounds, so the parts may not add up exactly to the whole.")
    return "\n".join(lines) + "\n"


def processors(loads, systems):
    """The processor use of the servers, and of the load itself."""
    lines = ["## Where the processor time went\n", "Cores used by the servers + by the load. Servers cannot use what the load takes.\n"]
    lines += ["| | " + " | ".join(NAMES[system] for system in systems) + " |", "|---" * (len(systems) + 1) + "|"]
    for load in loads:
        cells = []
        for system in systems:
            servers, own = (value(loads, load, system, (field,)) for field in ("servers_cpu_micros_each", "load_cpu_micros_each"))
            rate = value(loads, load, system, RATE)
            cells.append("–" if servers is None else f"{servers * rate / 1e6:.2f} + {own * rate / 1e6:.2f}")
        workload, clients = load.rsplit(" ", 1)
        lines.append(f"| {TITLES[workload]}, {clients} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def failover(figures):
    if not figures["failover"]:
        return ""
    lines = ["## When the leader is killed\n", "The longest time without an answered write of 8 clients, around a `kill -9` of the leader, in ms."]
    lines += ["The goals are a median of at most 48 and a maximum of 74.\n"]
    lines += ["| | median | worst | kills | all, shortest first |", "|---|---|---|---|---|"]
    for system, gaps in figures["failover"].items():
        each = ", ".join(f"{gap:.0f}" for gap in sorted(gaps))
        lines.append(f"| {NAMES[system]} | **{statistics.median(gaps):.0f}** | **{max(gaps):.0f}** | {len(gaps)} | {each} |")
    return "\n".join(lines) + "\n"


def elections(figures):
    of = figures.get("elections")
    if not of:
        return ""
    count, load = of["after"] - of["before"], of["load"]
    gap = load["gaps"][0]
    return f"""## Elections at full load

{of["clients"]} clients acquire and release locks for {of["seconds"]:g} s, with {of["cores"]:.2f} cores busy.
There were **{count}** election{"" if count == 1 else "s"} (term {of["before"]} before, {of["after"]} after); the goal is none.
Meanwhile there were {short(load["per_second"])} cycles/s, with a p99 of {short(load["latency_ms"]["p99"])} ms; {load["failed"]} failed.
The longest time without a completed cycle was {short(gap["ms"])} ms, {gap["at_seconds"]:.1f} s after the start.
"""


def sessions(figures):
    if not figures["sessions"]:
        return ""
    lines = ["## Idle sessions\n", "Memory is the growth of the resident memory of all servers; processor time is that of all servers.", "The goals are 1.5 KiB for each session, and at most 4 % of one core for 100,000 sessions.\n"]
    lines += ["| | memory for each session | sessions | processor time | without sessions |", "|---|---|---|---|---|"]
    for system, cost in figures["sessions"].items():
        lines.append(f"| {NAMES[system]} | {cost['bytes_each'] / 1024:.1f} KiB | {cost['sessions']:,} | {cost['cores'] * 100:.1f} % of a core | {cost['cores_without'] * 100:.1f} % |")
    lines += ["", "Fairhold's sessions share 16 connections, and a keepalive renews up to 1,000 of them."]
    lines += ["etcd's sessions are leases of one client; sessions of ZooKeeper and Redis each have a connection."]
    return "\n".join(lines) + "\n"


def growth(figures):
    of = figures.get("growth")
    if not of or not of.get("rates"):
        return ""
    lines = ["## With many held locks\n", "Cycles/s of 64 clients over HTTP, while one session holds many locks, 64 in each grant."]
    lines += ["There is one cluster for each number of locks, and the clusters are measured in turn. The goal is rates within 10 % of each other.\n", "| locks | cycles/s | p50 / p99 |", "|---|---|---|"]
    for count, runs in of["rates"].items():
        rates = [run["per_second"] for run in runs]
        spread = f" ({short(min(rates))} to {short(max(rates))})" if len(rates) > 1 else ""
        p50, p99 = (median_of(runs, "latency_ms", field) for field in ("p50", "p99"))
        lines.append(f"| {int(count):,} | **{short(statistics.median(rates))}**{spread} | {short(p50)} / {short(p99)} ms |")
    if of.get("memory"):
        memory = of["memory"]
        locks = f"{memory['locks']:,}"
        lines += ["", f"Memory of all three servers: {mib(memory['full'])} with {locks} locks, which were acquired in {of['filled_seconds']:.0f} s."]
        lines += [f"After their release (in {memory['released_seconds']:.0f} s), {memory['waited_seconds']:.0f} s and a snapshot: {mib(memory['after'])}. The cluster with ten locks, after the same load: {mib(memory['few'])}."]
        lines += ["An unused lock stays known for ten minutes; `--after-load 900` waits longer than that."]
    return "\n".join(lines) + "\n"


def bulk(figures):
    of = figures["bulk"]
    if not of.get("permits"):
        return ""
    text = f"""## A session with very many grants

One session acquires {of["count"]:,} distinct locks in {of["locks"]:.0f} s, and in another cluster one acquires as many permits of one semaphore in {of["permits"]:.0f} s.
Each request has 250 acquires.
"""
    end = of.get("end")
    if end:
        text += f"""The session with the locks ends while 64 clients acquire and release others over HTTP.
Its end took {end["seconds"]:.1f} s. The longest time without a completed cycle of those clients was {short(end["pause_ms"])} ms meanwhile, and {short(end["pause_alone_ms"])} ms in {ALONE} s before it.
"""
    return text


def watch(figures):
    of = figures.get("watch")
    if not of:
        return ""
    lines = ["## Many watchers\n", "Watchers of one folder, each with its own connection, spread over the nodes, all receive the same writes."]
    lines += ["Servers' time is that of all three, including the writes."]
    lines += ["\"One more watcher\" is the added cost for each added event, compared with the row above. The goal is that it does not grow.\n"]
    lines += ["| watchers | events delivered/s | delay, p50 / p99 | servers' time for each event | one more watcher | missed |", "|---|---|---|---|---|---|"]
    marginal = dict(watcher_costs(of))
    for size in sorted(int(count) for count in of):
        runs = of[str(size)]
        more = marginal.get(size)
        p50, p99 = (median_of(runs, "latency_ms", field) for field in ("p50", "p99"))
        each = median_of(runs, "servers_cpu_micros_each")
        cells = [f"{size:,}", f"**{short(median_of(runs, 'events_per_second'))}**", f"{short(p50)} / {short(p99)} ms", f"{short(each)} µs"]
        cells += ["–" if more is None else f"{short(more)} µs", str(sum(run["missed"] for run in runs))]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def dashboards(figures):
    of = figures.get("dashboards")
    if not of or not of["beside"]:
        return ""
    pairs = list(zip(of["without"], of["beside"]))
    alone, without, beside = of["alone"], [before for before, _ in pairs], [after for _, after in pairs]
    cores, idle = median_of(alone, "servers_cores"), statistics.median(of["idle_cores"])
    lines = ["## Open dashboards\n", f"{of['dashboards']} dashboards show the overview of the leader, each as a browser does (`fairhold bench dashboard`)."]
    lines += [f"They make {short(median_of(alone, 'per_second'))} calls a second, which the leader answers after {short(median_of(alone, *P50))} / {short(median_of(alone, *P99))} ms, with {median_of(alone, 'body_bytes_per_second') / 1024:,.0f} KiB of bodies a second."]
    lines += [f"The leader uses {cores:.3f} of a core meanwhile, and {idle:.3f} without them: **{cores - idle:.3f}** of a core for all of them. The goal is at most 0.15."]
    lines += [f"{of['clients']} clients acquire and release locks over HTTP, in turn without and beside them. The goals are at most 5 % fewer cycles/s, and a p99 that is at most 10 % longer."]
    lines += [f"The program that plays the browsers runs on the same machine, where it uses {statistics.median(of['browsers_cores']):.3f} of a core: these figures include it. The lines of the table are medians of {len(pairs)} measurements, and the change is the median of their {len(pairs)} pairs.\n"]
    lines += ["| | cycles/s | p50 / p99 |", "|---|---|---|"]
    for name, runs in (("without dashboards", without), ("beside them", beside)):
        lines.append(f"| {name} | **{short(median_of(runs, *RATE))}** | {short(median_of(runs, *P50))} / {short(median_of(runs, *P99))} ms |")
    change = lambda path: statistics.median(median_of([after], *path) / median_of([before], *path) for before, after in pairs) - 1
    rate, p99 = change(RATE), change(P99)
    lines.append(f"| change | {100 * rate:+.1f} % | p99 {100 * p99:+.1f} % |")
    return "\n".join(lines) + "\n"


def tree(figures):
    if not figures["tree"]:
        return ""
    of = figures["tree"]
    return f"""## A large tree

{of["nodes"]:,} nodes with values of 100 bytes, written in {of["loaded_seconds"]:.0f} s, with 1,000 nodes in each transaction.
On the server with the most memory they take {of["bytes_each"]:.0f} bytes each, including the value ({mib(of["resident"])} resident; {mib(of["resident_restarted"])} after a restart).
After a clean stop and start of all three servers, the cluster is ready in **{of["ready_seconds"]:.1f} s**.
The goals are 300 bytes besides the value, and 2 s.
"""


def problems(figures):
    """The parts that could not be measured."""
    if not figures["problems"]:
        return ""
    return "## What went wrong\n\n" + "".join(f"- {problem}\n" for problem in figures["problems"])


def how(figures):
    return f"""## Run it again

```
{figures["command"]}
```

It took {figures["took_minutes"]:.1f} minutes, without building.
You need Java, Debian's apt-get and dpkg (nothing is installed: packages are unpacked into a folder), and cargo.
"""
