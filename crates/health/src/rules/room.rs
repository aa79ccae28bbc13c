//! Rules about what a node can run out of: disk space, open files, and the budget of the state.

use crate::{
    answer::ProbedNode,
    finding::{Finding, fail, ok, warn},
    text::size,
};
use fairhold_types::NodeId;

/// With fewer free bytes, a disk may be full at any moment.
const DISK_FULL: u64 = 256 << 20;
/// With fewer free bytes, a disk will be full soon.
const DISK_LOW: u64 = 2 << 30;
/// With a lower percentage of free space, a disk will be full soon, unless it has `DISK_PLENTY`.
const DISK_LOW_PERCENT: u64 = 10;
/// With this many free bytes, the percentage does not matter.
const DISK_PLENTY: u64 = 20 << 30;
/// The open files that a node needs: ten thousand client connections, and its own files.
const OPEN_FILES_WANTED: u64 = 12_000;
/// The highest percentage of its limit on open files that a node should use.
const OPEN_FILES_USED_MAX: u64 = 80;
/// From this percentage of the state budget on, `doctor` warns.
const STATE_USED_MAX: u64 = 80;

pub(super) fn disk(id: NodeId, answer: &ProbedNode) -> Option<Finding> {
    let host = &answer.readiness.as_ref()?.host;
    let free = host.disk_free_bytes?;
    let all = host.disk_bytes?;
    let percent = free.saturating_mul(100).checked_div(all).unwrap_or(0);
    let seen = format!("node {id} has {} free for its data, {percent} % of the disk", size(free));
    let advice = "free space on the disk of its data directory: a node that cannot write stops";
    Some(match () {
        () if free < DISK_FULL => fail("disk", seen, advice),
        () if free < DISK_LOW || percent < DISK_LOW_PERCENT && free < DISK_PLENTY => warn("disk", seen, advice),
        () => ok("disk", seen),
    })
}

pub(super) fn state(id: NodeId, answer: &ProbedNode) -> Option<Finding> {
    let bytes = answer.cluster.state_bytes;
    let max = answer.cluster.state_bytes_max?;
    let percent = bytes.saturating_mul(100).checked_div(max).unwrap_or(0);
    let seen = format!("node {id} has a state of {}, {percent} % of its budget of {}", size(bytes), size(max));
    Some(if percent >= STATE_USED_MAX {
        let smallest = answer.cluster.members.iter().filter(|member| member.state_bytes_max == Some(max)).map(|member| member.id);
        let smallest: Vec<String> = smallest.map(|id| format!("node {id}")).collect();
        let advice = "remove nodes of the tree or end sessions: when the state is full, the cluster refuses requests that create \
                      something; or give more memory, or a larger --state-bytes-max, to";
        warn("state", seen, format!("{advice} {}, which has the smallest budget", smallest.join(" and ")))
    } else {
        ok("state", seen)
    })
}

pub(super) fn open_files(id: NodeId, answer: &ProbedNode) -> Option<Finding> {
    let host = &answer.readiness.as_ref()?.host;
    let open = host.open_files?;
    let max = host.open_files_max?;
    let seen = format!("node {id} has {open} of {max} files and sockets open");
    Some(if open.saturating_mul(100) > max.saturating_mul(OPEN_FILES_USED_MAX) {
        fail(
            "open_files",
            seen,
            "raise its limit (ulimit -n, LimitNOFILE=65536 in its unit) and restart it: at the limit it refuses connections",
        )
    } else if max < OPEN_FILES_WANTED {
        let advice = "raise its limit (ulimit -n, LimitNOFILE=65536 in its unit): a node accepts up to 10000 connections";
        warn("open_files", seen, advice)
    } else {
        ok("open_files", seen)
    })
}
