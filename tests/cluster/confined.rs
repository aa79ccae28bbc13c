//! Limits below those of the machine: memory cgroups and small file systems for nodes. Both need root, so only long
//! forms use them.

use crate::harness::{NodeProcess, report};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

pub(crate) const MIB: u64 = 1024 * 1024;

/// The memory limit of a group.
pub(crate) const GROUP_BYTES: u64 = 1024 * MIB;

/// A memory cgroup for one node; removed when dropped.
pub(crate) struct Group(PathBuf);

impl Group {
    /// Gives each node a group, in which its next processes start. Drop the nodes before the groups.
    pub(crate) fn of_each(nodes: &mut [NodeProcess]) -> Vec<Group> {
        let first = PathBuf::from("/sys/fs/cgroup/memory");
        let (root, limit) =
            if first.exists() { (first, "memory.limit_in_bytes") } else { ("/sys/fs/cgroup".into(), "memory.max") };
        let mut groups = Vec::new();
        for node in nodes {
            let group = root.join(format!("fairhold-trial-{}-{}", std::process::id(), node.id));
            fs::create_dir(&group).expect("the long form makes memory cgroups: run it as root");
            fs::write(group.join(limit), GROUP_BYTES.to_string()).expect("a group has a limit");
            node.cgroup = Some(group.clone());
            groups.push(Group(group));
        }
        groups
    }

    /// The most memory that its processes and their cached files used together, in MiB, if the kernel reports it.
    pub(crate) fn peak(&self) -> Option<u64> {
        let texts = ["memory.max_usage_in_bytes", "memory.peak"].map(|file| fs::read_to_string(self.0.join(file)));
        let bytes = texts.into_iter().find_map(Result::ok)?;
        Some(bytes.trim().parse::<u64>().expect("a number of bytes") / MIB)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel removes a group only after its process has gone; the end of the test waits for that.
        if let Err(error) = fs::remove_dir(&self.0) {
            report(&format!("a cgroup was not removed: {error}"));
        }
    }
}

/// A small file system, unmounted when dropped.
pub(crate) struct Mount(PathBuf);

impl Mount {
    /// A file system in memory.
    pub(crate) fn memory_at(folder: &Path, size_mib: u64) -> Result<Mount, String> {
        Mount::made(folder, Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={size_mib}m"), "tmpfs"]).arg(folder))
    }

    /// A file system in a file next to the folder: the kernel can drop its pages from memory, unlike those of a file
    /// system in memory.
    pub(crate) fn file_at(folder: &Path, size_mib: u64) -> Result<Mount, String> {
        let image = folder.with_extension("ext4");
        fs::File::create(&image).and_then(|file| file.set_len(size_mib * MIB)).expect("a file for a file system");
        let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).output().map_err(|error| error.to_string())?;
        assert!(made.status.success(), "{made:?}");
        Mount::made(folder, Command::new("mount").args(["-o", "loop"]).arg(&image).arg(folder))
    }

    fn made(folder: &Path, mount: &mut Command) -> Result<Mount, String> {
        fs::create_dir_all(folder).expect("a folder");
        match mount.output() {
            Ok(output) if output.status.success() => Ok(Mount(folder.to_owned())),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Free bytes.
    pub(crate) fn free(&self) -> u64 {
        let room = rustix::fs::statvfs(&self.0).expect("it is mounted");
        room.f_bavail * room.f_frsize
    }

    /// Fills the file system up to this many free bytes.
    pub(crate) fn leave(&self, bytes: u64) {
        let ballast = self.0.join("ballast");
        drop(fs::remove_file(&ballast));
        let fill = usize::try_from(self.free().saturating_sub(bytes)).expect("it fits into memory");
        // For 0, writes until the file system is full.
        drop(fs::write(&ballast, vec![1; fill]));
    }

    /// Frees what `leave` filled.
    pub(crate) fn make_room(&self) {
        fs::remove_file(self.0.join("ballast")).expect("the ballast is there");
    }
}

impl Mount {
    /// Nothing may write to the file system from now on.
    pub(crate) fn forbid_writes(&self) {
        let done = Command::new("mount").args(["-o", "remount,ro"]).arg(&self.0).status().expect("mount runs");
        assert!(done.success(), "{done}");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: the node may have files open.
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}
