//! The most memory that clients can pin at a node: a table of `docs/limits.md`, computed from the limits themselves.

use fairhold_types::{limits::*, memory_plan::MemoryPlan};
use std::fmt::Write as _;

const MIB: usize = 1024 * 1024;

/// The memory of a connection in addition to its buffers: tasks, timers, the parser. Measured with 10,000 idle watches.
const CONNECTION_BYTES: usize = 10 * 1024;
/// The fetched but unsent events of a watcher, and its filter.
const WATCHER_BYTES: usize = CHANGES_AT_ONCE * 128;

/// The memory that one connection pins.
const EACH: usize = CONNECTION_BYTES + CONNECTION_BUFFER_BYTES + BODY_BYTES_FREE + ANSWER_BYTES_FREE + WATCHER_BYTES;
/// The newest entries of the log: a bound of `crates/storage`.
const TAIL_BYTES: usize = 8 * MIB;
/// Sizes of a node's memory, in GiB.
const MEMORIES: [u64; 3] = [1, 2, 4];

/// A row: the item, its limit, and the bytes at a node with each of the memory sizes.
type Row = (&'static str, String, [usize; 3]);

fn rows() -> Vec<Row> {
    let plans = MEMORIES.map(|gib| MemoryPlan::of(gib << 30));
    let parts = format!(
        "`--connections-max`, here {} × {} KiB: {} of input, {} of a body, {} of answers, {} of a watch, {} for itself",
        plans.map(|plan| plan.connections.to_string()).join(", "),
        EACH / 1024,
        CONNECTION_BUFFER_BYTES / 1024,
        BODY_BYTES_FREE / 1024,
        ANSWER_BYTES_FREE / 1024,
        WATCHER_BYTES / 1024,
        CONNECTION_BYTES / 1024
    );
    let half = "one limit; at most half of it for one address".to_owned();
    let ring = |plan: MemoryPlan| usize::try_from(plan.event_ring_bytes).expect("it fits");
    vec![
        ("connections", parts, plans.map(|plan| plan.connections * EACH)),
        ("bodies that arrive or are being processed", half.clone(), plans.map(|plan| plan.body_bytes)),
        ("answers that sockets have not yet taken", half, plans.map(|plan| plan.answer_bytes)),
        ("recent events for watches", "`--event-ring-bytes`".to_owned(), plans.map(ring)),
        ("commands in progress", "one limit".to_owned(), plans.map(|plan| plan.proposal_bytes)),
        ("the newest log entries", "one limit".to_owned(), [TAIL_BYTES; 3]),
    ]
}

fn in_mib(bytes: [usize; 3]) -> String {
    bytes.map(|bytes| bytes.div_ceil(MIB).to_string()).join(" | ")
}

/// The section of the page.
pub(crate) fn section() -> String {
    let mut text = "
## The memory that clients can pin

The maximum at one node, in MiB. A node with less memory accepts less. Each column is a node with
that much memory, in its cgroup or machine.

| what | by which limit | 1 GiB | 2 GiB | 4 GiB and more |
|---|---|---|---|---|
"
    .to_owned();
    let rows = rows();
    for (what, limit, bytes) in &rows {
        writeln!(text, "| {what} | {limit} | {} |", in_mib(*bytes)).expect("writing to a string succeeds");
    }
    let sums = [0, 1, 2].map(|column| rows.iter().map(|(_, _, bytes)| bytes[column].next_multiple_of(MIB)).sum::<usize>());
    let states = MEMORIES.map(|gib| usize::try_from(MemoryPlan::of(gib << 30).state_bytes).expect("it fits"));
    write!(
        text,
        "| **total, without the state** | | {} |
| the state: tree, locks, sessions, remembered ids, history | `--state-bytes-max` | {} |
| log and snapshots | on disk | | | |

A node accepts one connection for each 256 KiB of its memory, up to {CONNECTIONS_MAX}. Bodies and answers each
get a sixteenth of the memory, up to {} MiB each. Events and commands each get a 32nd, up to {} MiB
each. The state gets an eighth.

If you set the limits yourself, a node needs the 100 MiB of an empty node, plus
`{} KiB × connections + the event ring + 2.2 × the state`, plus the rest of the table. A node uses
most of it only under attack: 10,000 clients that read their answers take some 330 MiB. The kernel
holds up to 64 KiB of the answers that a client does not read.
",
        in_mib(sums),
        in_mib(states),
        BODIES_BYTES_MAX / MIB,
        PROPOSALS_BYTES_MAX / MIB,
        EACH / 1024,
    )
    .expect("writing to a string succeeds");
    text
}

#[test]
fn the_memory_that_clients_can_pin_is_the_sum_of_the_limits() {
    let page = std::fs::read_to_string("../../docs/limits.md").expect("the page is there");
    let section = section();
    let differs = section.lines().find(|line| !page.contains(line));
    assert!(page.contains(&section), "docs/limits.md should have this section, and differs in {differs:?}:\n{section}");
}

/// While a node receives a snapshot, the state takes up to 2.2 times its size.
#[test]
fn the_memory_that_clients_can_pin_fits_into_the_node() {
    const EMPTY: usize = 100 * MIB;
    for (column, gib) in MEMORIES.into_iter().enumerate() {
        let pinned: usize = rows().iter().map(|(_, _, bytes)| bytes[column]).sum();
        let memory = usize::try_from(gib << 30).expect("it fits");
        let state = usize::try_from(MemoryPlan::of(gib << 30).state_bytes).expect("it fits") * 22 / 10;
        let needed = EMPTY + pinned + state;
        assert!(needed < memory * 85 / 100, "{} of {} MiB", needed / MIB, memory / MIB);
    }
}
