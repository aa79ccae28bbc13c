//! The memory of this process: its limit, the share that clients may use, and whether it runs short.
//!
//! The limit is that of the cgroup (version 1 or 2) or of the machine. If neither can be read, the node never refuses a
//! request because memory is short, and budgets for a small machine.

use fairhold_node::{Node, node::Concern};
use fairhold_types::memory_plan::MemoryPlan;
use openraft_rt_tokio::TokioRuntime;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{task::spawn_blocking, time::sleep};

/// How often the node checks the memory in use.
const CHECK_EVERY: Duration = Duration::from_millis(500);
/// From this percentage of its limit on, a node refuses requests that create something.
const SHORT_PERCENT: u64 = 85;
/// Below this percentage memory is no longer short. The difference prevents flapping.
const RECOVERED_PERCENT: u64 = 80;
/// The limit to assume if it cannot be read, in bytes.
const MEMORY_DEFAULT: u64 = 4 << 30;
/// Where Linux mounts its cgroups.
const CGROUPS: &str = "/sys/fs/cgroup";

/// How many bytes this process may use; `None` if unknown.
pub(super) fn limit() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| of_machine(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let of_groups = limit_files(Path::new(CGROUPS), &groups).into_iter().filter_map(|file| fs::read_to_string(file).ok());
    of_groups.filter_map(|text| text.trim().parse().ok()).chain(machine).min()
}

/// The memory budgets, derived from the limit.
pub(crate) fn plan() -> MemoryPlan {
    MemoryPlan::of(limit().unwrap_or(MEMORY_DEFAULT))
}

/// Makes the node refuse requests that create something while memory is short.
pub(super) async fn watch(node: Node<TokioRuntime>, limit: u64) {
    let mut short = false;
    loop {
        let resident = spawn_blocking(resident).await.ok().flatten().unwrap_or_default();
        let percent = resident.saturating_mul(100) / limit.max(1);
        if !short && percent >= SHORT_PERCENT {
            short = true;
            let warning =
                format!("{resident} of {limit} bytes of memory are in use: this node refuses requests that create something");
            tracing::error!("{warning}");
            node.warn(Concern::Memory, Some(warning));
        } else if short && percent < RECOVERED_PERCENT {
            short = false;
            tracing::info!(resident_bytes = resident, limit_bytes = limit, "there is enough memory again");
            node.warn(Concern::Memory, None);
        }
        node.set_memory_short(short);
        sleep(CHECK_EVERY).await;
    }
}

/// The resident memory of this process, in bytes.
pub(super) fn resident() -> Option<u64> {
    let pages: u64 = fs::read_to_string("/proc/self/statm").ok()?.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

fn of_machine(meminfo: &str) -> Option<u64> {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// The files that may limit a process in these groups: those of each group and of its ancestors. In a container the
/// name of the group may belong to another mount; then only the topmost file exists.
fn limit_files(root: &Path, groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let (top, name) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|controller| controller == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _other => continue,
        };
        let group = Path::new(group.trim_start_matches('/'));
        files.extend(group.ancestors().map(|level| top.join(level).join(name)));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_both_cgroup_versions_and_of_all_ancestors_count() {
        let of =
            |groups| limit_files(Path::new("/c"), groups).into_iter().map(|file| file.display().to_string()).collect::<Vec<_>>();
        assert_eq!(of("0::/a/b\n"), ["/c/a/b/memory.max", "/c/a/memory.max", "/c/memory.max"]);
        let first = "12:pids:/x\n4:cpu,memory:/docker/7\n1:name=systemd:/\n";
        assert_eq!(
            of(first),
            [
                "/c/memory/docker/7/memory.limit_in_bytes",
                "/c/memory/docker/memory.limit_in_bytes",
                "/c/memory/memory.limit_in_bytes"
            ]
        );
        assert_eq!(of("0::/\n"), ["/c/memory.max"]);
        assert_eq!(of("not a cgroup line"), Vec::<String>::new());
    }

    #[test]
    fn this_process_uses_some_of_the_memory_of_this_machine() {
        assert_eq!(of_machine("MemTotal:       16384000 kB\nMemFree: 1 kB\n"), Some(16_384_000 * 1024));
        let (limit, resident) = (limit().unwrap(), resident().unwrap());
        assert!(0 < resident && resident < limit, "{resident} of {limit}");
        assert_eq!(plan(), MemoryPlan::of(limit));
    }
}
