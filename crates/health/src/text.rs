//! Figures as text.

use fairhold_types::NodeId;

/// The ids of nodes.
pub(crate) fn joined(ids: &[NodeId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// That nodes do not answer, as the beginning of a sentence.
pub(crate) fn unanswered(ids: &[NodeId]) -> String {
    match ids {
        [id] => format!("node {id} does not answer"),
        _ => format!("nodes {} do not answer", joined(ids)),
    }
}

/// Bytes in MiB, and from 10 GiB on in GiB.
pub(crate) fn size(bytes: u64) -> String {
    let mib = bytes >> 20;
    if mib < 10_240 { format!("{mib} MiB") } else { format!("{} GiB", mib >> 10) }
}
