//! The most memory that clients can pin at a node: a table of `docs/limits.md`, computed from the limits themselves.

use fairhold_types::limits::*;
use std::fmt::Write as _;

const MIB: usize = 1024 * 1024;

/// What the process keeps for a connection beside its buffers: tasks, timers, the parser. Measured: 10,000 idle watches.
const CONNECTION_BYTES: usize = 10 * 1024;
/// What a watcher has fetched and not yet sent, and what it watches.
const WATCHER_BYTES: usize = CHANGES_AT_ONCE * 128;
/// Commands that wait for their place in the log, and the newest entries of the log: bounds of `crates/raft` and
/// `crates/storage`.
const PROPOSALS_BYTES: usize = (64 + 8) * MIB;

/// A row: what it is, by which limits, and the bytes of all.
fn rows() -> Vec<(&'static str, String, usize)> {
    let each = CONNECTION_BYTES + CONNECTION_BUFFER_BYTES + BODY_BYTES_FREE + ANSWER_BYTES_FREE + WATCHER_BYTES;
    let kib = each / 1024;
    let parts = format!(
        "{CONNECTIONS_MAX} (`--connections-max`) × {kib} KiB: {} of input, {} of a body, {} of answers, {} of a watch, {} for \
         itself",
        CONNECTION_BUFFER_BYTES / 1024,
        BODY_BYTES_FREE / 1024,
        ANSWER_BYTES_FREE / 1024,
        WATCHER_BYTES / 1024,
        CONNECTION_BYTES / 1024
    );
    let per_address = |bytes: usize| format!("one limit; at most {} MiB for one address", bytes / MIB);
    vec![
        ("connections", parts, CONNECTIONS_MAX * each),
        ("bodies that arrive or are being processed", per_address(BODIES_BYTES_PER_ADDRESS_MAX), BODIES_BYTES_MAX),
        ("answers that sockets have not taken yet", per_address(ANSWERS_BYTES_PER_ADDRESS_MAX), ANSWERS_BYTES_MAX),
        ("recent events for watches", "`--event-ring-bytes`".to_owned(), usize::try_from(EVENT_RING_BYTES).expect("it fits")),
        ("commands in progress, and the newest log entries", "64 + 8 MiB".to_owned(), PROPOSALS_BYTES),
    ]
}

/// The section of the page.
pub(crate) fn section() -> String {
    let mut text = "
## The memory that clients can pin

At one node, at most, in MiB:

| what | by which limit | together |
|---|---|---|
"
    .to_owned();
    let rows = rows();
    for (what, limit, bytes) in &rows {
        writeln!(text, "| {what} | {limit} | {} |", bytes.div_ceil(MIB)).expect("a text takes what is written");
    }
    let sum: usize = rows.iter().map(|(_, _, bytes)| bytes.div_ceil(MIB)).sum();
    write!(
        text,
        "| **in all, beside the state** | | **{sum}** |
| the state: the tree, locks, sessions, remembered ids, history | `state_bytes_max` | as it is set |
| log and snapshots | on the disk | |

So a node needs, beside the 100 MiB of an empty one, `{} KiB × connections + {} MiB + the event ring + what the state may take`.
A node uses most of it only under attack: 10,000 clients that read their answers take some 330 MiB. Socket buffers of the kernel
come on top: up to 4 MiB for each answer that a connected client does not read (`net.ipv4.tcp_wmem`).
",
        (CONNECTION_BYTES + CONNECTION_BUFFER_BYTES + BODY_BYTES_FREE + ANSWER_BYTES_FREE + WATCHER_BYTES) / 1024,
        (BODIES_BYTES_MAX + ANSWERS_BYTES_MAX + PROPOSALS_BYTES) / MIB
    )
    .expect("a text takes what is written");
    text
}

#[test]
fn what_clients_can_pin_is_the_sum_of_the_limits() {
    let page = std::fs::read_to_string("../../docs/limits.md").expect("the page is there");
    let section = section();
    let differs = section.lines().find(|line| !page.contains(line));
    assert!(page.contains(&section), "docs/limits.md should have this section, and differs in {differs:?}:\n{section}");
}
