//! Figures as text, and advice that several rules give.

use fairhold_types::NodeId;

/// What to do about a certificate that is to be renewed.
pub(crate) const RENEW: &str = "renew it on the machine with the authority (fairhold cert renew --ca DIR FILE), and copy the new \
                                file over the old one: the node takes it by itself";

/// The ids of nodes.
pub(crate) fn joined(ids: &[NodeId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Nodes by their ids, as a part of a sentence.
pub(crate) fn named(ids: &[NodeId]) -> String {
    match ids {
        [id] => format!("node {id}"),
        _ => format!("nodes {}", joined(ids)),
    }
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
