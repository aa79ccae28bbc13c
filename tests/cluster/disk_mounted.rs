//! A file system that is really full: a small one, mounted for one node. In the long form, as root, where mounting is allowed.

use crate::{
    disk_full::{Load, assert_same_everywhere, ended, waits_for_room},
    harness::{Cluster, LONG, alone, eventually, report},
    trial,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

const MIB: u64 = 1024 * 1024;
const SIZE_MIB: u64 = 400;
/// Enough to run with, too little to be left without a warning.
const LOW_MIB: u64 = 100;

/// A small file system, unmounted when dropped.
struct Mount(PathBuf);

impl Mount {
    fn at(folder: &Path) -> Result<Mount, String> {
        fs::create_dir_all(folder).expect("a folder");
        let run = Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={SIZE_MIB}m"), "tmpfs"]).arg(folder).output();
        match run {
            Ok(output) if output.status.success() => Ok(Mount(folder.to_owned())),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn free(&self) -> u64 {
        let room = rustix::fs::statvfs(&self.0).expect("it is mounted");
        room.f_bavail * room.f_frsize
    }

    /// Leaves so much room.
    fn leave(&self, bytes: u64) {
        let ballast = self.0.join("ballast");
        drop(fs::remove_file(&ballast));
        let fill = usize::try_from(self.free().saturating_sub(bytes)).expect("it fits into memory");
        // All that fits, where nothing is to be left.
        drop(fs::write(&ballast, vec![1; fill]));
    }

    fn make_room(&self) {
        fs::remove_file(self.0.join("ballast")).expect("the ballast is there");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: the node may have it open.
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

#[test]
fn a_mounted_file_system_fills_up_under_the_leader() {
    if !trial::size(false, true) {
        report("in the long form only: a mounted file system that fills up");
        return;
    }
    alone(LONG, async {
        let mut cluster = Cluster::plan();
        let folder = cluster.nodes[0].data.with_extension("mount");
        let mount = match Mount::at(&folder) {
            Ok(mount) => mount,
            Err(why) => return report(&format!("not covered here: a mounted file system that fills up: {why}")),
        };
        cluster.nodes[0].move_to(&folder.join("data"));
        for node in &mut cluster.nodes {
            node.start();
        }
        cluster.ready().await;
        // Until the node with the small disk leads.
        while cluster.leader().await != 0 {
            let leader = cluster.leader().await;
            cluster.nodes[leader].terminate().await;
            cluster.restart(leader).await;
        }
        let load = Load::start(&cluster, 50_000);
        load.more(20).await;
        mount.leave(LOW_MIB * MIB);
        let started = Instant::now();
        eventually("the leader hands over", Duration::from_secs(20), || async { (cluster.leader().await != 0).then_some(()) })
            .await;
        report(&format!("little room is left: another node leads after {:.1?}", started.elapsed()));
        load.silence();
        mount.leave(0);
        let data = cluster.nodes[0].data.display().to_string();
        ended(&mut cluster, 0, &["No space left on device", "Free at least", &data]).await;
        load.more(50).await;
        let silence = load.silence();
        cluster.nodes[0].start();
        waits_for_room(&cluster, 0).await;
        mount.make_room();
        let room = Instant::now();
        cluster.node_ready(0).await;
        report(&format!("mounted and full: the longest silence {silence:.0?}, back {:.1?} after there was room", room.elapsed()));
        let written = load.end().await;
        written.assert_there(&cluster.client(0)).await;
        assert_same_everywhere(&cluster).await;
        cluster.nodes[0].kill().await;
        drop(mount);
    });
}
