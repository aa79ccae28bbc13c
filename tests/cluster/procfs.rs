//! The kernel's figures for a node's process: memory, processor time, open files. Also the size of its data directory.

use crate::harness::NodeProcess;
use std::{fs, path::Path, time::Duration};

const MIB: f64 = 1024.0 * 1024.0;

/// The resources of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    /// Resident memory, in MiB.
    pub(crate) resident: f64,
    /// Processor time since its start.
    pub(crate) cpu: Duration,
    /// Open files and sockets.
    pub(crate) files: usize,
    /// The size of its data directory, in MiB.
    pub(crate) disk: f64,
}

impl Usage {
    /// The usage of a running node.
    pub(crate) fn of(node: &NodeProcess) -> Usage {
        let folder = format!("/proc/{}", node.pid());
        let stat = fs::read_to_string(format!("{folder}/stat")).expect("the process runs");
        let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
        // Fields are numbered from 1, and the first two are gone.
        let field = |number: usize| fields[number - 3].parse::<u64>().expect("a number");
        let ticks = rustix::param::clock_ticks_per_second();
        Usage {
            resident: (field(24) * rustix::param::page_size() as u64) as f64 / MIB,
            cpu: Duration::from_millis((field(14) + field(15)) * 1_000 / ticks),
            files: fs::read_dir(format!("{folder}/fd")).expect("its files").count(),
            disk: directory_bytes(&node.data) as f64 / MIB,
        }
    }

    /// The usage of all nodes; all must run.
    pub(crate) fn of_all(nodes: &[NodeProcess]) -> Vec<Usage> {
        nodes.iter().map(Usage::of).collect()
    }
}

/// Files may disappear while they are counted.
fn directory_bytes(path: &Path) -> u64 {
    let entries = fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    entries
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => directory_bytes(&entry.path()),
            Ok(data) => data.len(),
            Err(_) => 0,
        })
        .sum()
}
