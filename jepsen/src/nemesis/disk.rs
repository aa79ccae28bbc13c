//! Faults of disks. If a fault needs it, each node has its own small file system, so that a disk can be really full or
//! frozen, or lose unsynced data.

use super::{Fault, Injected, Skipped, Undo, UnusableDisk, World, clock::Control, process};
use crate::{
    cluster,
    shell::{is_alive, run, run_line},
};
use rand::RngExt;
use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::Duration,
};

/// The size of a node's file system, a sparse file.
const DISK_BYTES: u64 = 400 * 1024 * 1024;
const SYNC_DELAY_US: i64 = 70_000;
const FOLLOWER_SYNC_DELAY_US: i64 = 100_000;
/// Bytes that a torn log loses.
const TORN_BYTES: u64 = 37;

/// A damaged disk.
#[derive(Debug)]
pub(super) enum Damaged {
    Full {
        node: usize,
        ballast: PathBuf,
    },
    Slow {
        node: usize,
        seen: i64,
    },
    Failing {
        node: usize,
        /// Its process at that moment.
        pid: Option<u32>,
    },
    Frozen {
        node: usize,
        mount: PathBuf,
    },
    /// The process was killed and its files damaged. They are restored if the node refuses to start.
    Spoilt {
        node: usize,
        saved: PathBuf,
        what: String,
    },
    /// The process was killed and its directory removed.
    Wiped {
        node: usize,
        saved: PathBuf,
    },
}

/// Mounts a file system for each node if a fault needs one.
pub(super) fn prepare(world: &mut World, faults: &[Fault]) {
    remove_leftovers();
    let wants = |fault: &Fault| {
        matches!(fault, Fault::FullDisk | Fault::HungDisk | Fault::FrozenDisk | Fault::PowerLoss | Fault::PowerLossAll)
    };
    let wanted: Vec<Fault> = faults.iter().copied().filter(wants).collect();
    if wanted.is_empty() {
        return;
    }
    let mounted = world.machines().into_iter().try_for_each(|id| mount_new(&disk_of(world, id)));
    if let Err(why) = mounted {
        for id in world.machines() {
            unmount(&disk_of(world, id));
        }
        world.not_covered.extend(wanted.into_iter().map(|fault| (fault.name(), why.clone())));
    }
}

/// Thaws all disks, because a process that waits for its disk cannot be killed.
pub(super) fn thaw(folder: &Path, nodes: usize) {
    for disk in (1..=nodes).map(|id| cluster::disk_of(folder, id)).filter(|disk| is_mounted(disk)) {
        // It fails if nothing is frozen.
        drop(run("fsfreeze", &["-u", &disk.to_string_lossy()]));
    }
}

/// Unmounts the file systems of `prepare`, and removes the data of stopped nodes.
pub(super) fn tidy(folder: &Path, nodes: usize) {
    for id in 1..=nodes {
        unmount(&cluster::disk_of(folder, id));
    }
    if let Err(error) = fs::remove_dir_all(cluster::data_of(folder)) {
        crate::log_line(&format!("{}: the data could not be removed: {error}", folder.display()));
    }
}

/// The mount point of a node's disk, which contains its data directory.
pub(super) fn disk_of(world: &World, id: usize) -> PathBuf {
    cluster::disk_of(&world.folder, id)
}

fn mount_new(disk: &Path) -> Result<(), String> {
    fs::create_dir_all(disk).map_err(|error| format!("{}: {error}", disk.display()))?;
    let image = disk.with_extension("image");
    let made = fs::File::create(&image).and_then(|file| file.set_len(DISK_BYTES));
    made.map_err(|error| format!("{}: {error}", image.display()))?;
    run("mkfs.ext4", &["-q", "-F", "-m", "0", &image.to_string_lossy()])?;
    mount(disk)
}

/// Mounts with a new block device each time: another mount namespace may have kept the old device, and with it the file
/// system from before the power loss.
pub(super) fn mount(disk: &Path) -> Result<(), String> {
    let device = run("losetup", &["-f", "--show", &disk.with_extension("image").to_string_lossy()])?;
    let mounted = run("mount", &["-t", "ext4", device.trim(), &disk.to_string_lossy()]);
    // It is detached when it is no longer used.
    run("losetup", &["-d", device.trim()])?;
    mounted.map(|_| ())
}

fn is_mounted(disk: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(1) == Some(&*disk.to_string_lossy()))
}

pub(super) fn unmount(disk: &Path) {
    if is_mounted(disk) && run("umount", &[&disk.to_string_lossy()]).is_err() {
        // It is still open somewhere, and will be unmounted when it is closed.
        drop(run("umount", &["-l", &disk.to_string_lossy()]));
    }
}

/// Unmounts the leftovers of killed runs: their folders' names end with their process number.
fn remove_leftovers() {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    for disk in mounts.lines().filter_map(|line| line.split(' ').nth(1)).filter(|path| path.contains("/fairhold-chaos-")) {
        let run = disk.split('/').find(|part| part.starts_with("fairhold-chaos-")).unwrap_or_default();
        let pid = run.rsplit('-').next().and_then(|pid| pid.parse().ok());
        if pid.is_some_and(|pid| !is_alive(pid)) {
            drop(run_line(&format!("umount -l {disk}")));
        }
    }
}

pub(super) async fn full_disk(world: &mut World) -> Injected {
    let node = world.leader().await?;
    let ballast = disk_of(world, node).join("ballast");
    fill(&ballast).map_err(Skipped::NotHere)?;
    world.unusable_disks.insert(node, UnusableDisk::Full);
    Ok((format!("node {node}"), Undo::Disk(Damaged::Full { node, ballast })))
}

pub(super) async fn slow_sync(world: &mut World) -> Injected {
    let node = world.leader().await?;
    slow(world, node, SYNC_DELAY_US)
}

pub(super) async fn slow_follower_sync(world: &mut World) -> Injected {
    let node = world.follower().await?;
    slow(world, node, FOLLOWER_SYNC_DELAY_US)
}

fn slow(world: &World, node: usize, delay: i64) -> Injected {
    let control = Control::of(&world.folder, node).map_err(Skipped::NotHere)?;
    let seen = control.seen().and_then(|seen| control.delay_syncs(delay).map(|()| seen));
    let seen = seen.map_err(|error| Skipped::NotHere(error.to_string()))?;
    Ok((format!("node {node}"), Undo::Disk(Damaged::Slow { node, seen })))
}

pub(super) async fn sync_error(world: &mut World) -> Injected {
    let node = world.leader().await?;
    let control = Control::of(&world.folder, node).map_err(Skipped::NotHere)?;
    control.fail_syncs(1).map_err(|error| Skipped::NotHere(error.to_string()))?;
    let pid = world.cluster.node(node).pid();
    Ok((format!("node {node}"), Undo::Disk(Damaged::Failing { node, pid })))
}

pub(super) async fn frozen_disk(world: &mut World) -> Injected {
    let node = world.follower().await?;
    freeze(world, node)
}

pub(super) async fn hung_disk(world: &mut World) -> Injected {
    let node = world.leader().await?;
    freeze(world, node)
}

fn freeze(world: &mut World, node: usize) -> Injected {
    let mount = disk_of(world, node);
    run("fsfreeze", &["-f", &mount.to_string_lossy()]).map_err(Skipped::NotHere)?;
    world.unusable_disks.insert(node, UnusableDisk::Frozen);
    Ok((format!("node {node}"), Undo::Disk(Damaged::Frozen { node, mount })))
}

pub(super) async fn torn_log(world: &mut World) -> Injected {
    damage_files(world, "log", ".log", tear).await
}

pub(super) async fn flipped_log(world: &mut World) -> Injected {
    damage_files(world, "log", ".log", flip).await
}

pub(super) async fn flipped_snapshot(world: &mut World) -> Injected {
    process::take_snapshots(world).await?;
    damage_files(world, "snapshot", ".snap", flip).await
}

/// Writes until the disk is full.
fn fill(ballast: &Path) -> Result<(), String> {
    let mut file = fs::File::create(ballast).map_err(|error| format!("{}: {error}", ballast.display()))?;
    let zeros = vec![0; 1024 * 1024];
    loop {
        match io::Write::write(&mut file, &zeros) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::StorageFull => return Ok(()),
            Err(error) => return Err(format!("{}: {error}", ballast.display())),
        }
    }
}

async fn damage_files(world: &mut World, part: &str, ending: &str, damage: fn(&Path, u64) -> io::Result<String>) -> Injected {
    let node = world.follower().await?;
    let data = world.cluster.node(node).data.clone();
    if newest(&data.join(part), ending).is_none() {
        return Err(Skipped::NotNow(format!("node {node} has no {part} yet")));
    }
    world.cluster.node(node).kill().await.map_err(Skipped::NotNow)?;
    let saved = data.with_extension("saved");
    run("cp", &["-a", &data.to_string_lossy(), &saved.to_string_lossy()]).map_err(Skipped::NotNow)?;
    let file = newest(&data.join(part), ending).ok_or_else(|| Skipped::NotNow("the file is gone".to_owned()))?;
    let place: u64 = world.random.random();
    let what = damage(&file, place).map_err(|error| Skipped::NotNow(error.to_string()))?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok((format!("node {node}: {name}: {what}"), Undo::Disk(Damaged::Spoilt { node, saved, what })))
}

/// The newest nonempty file with that ending.
fn newest(folder: &Path, ending: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let files = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(ending));
    let with_time = files.filter_map(|entry| {
        let metadata = entry.metadata().ok()?;
        (metadata.is_file() && metadata.len() > TORN_BYTES).then_some((metadata.modified().ok()?, entry.path()))
    });
    with_time.max().map(|(_, path)| path)
}

fn tear(file: &Path, _place: u64) -> io::Result<String> {
    let file = OpenOptions::new().write(true).open(file)?;
    let length = file.metadata()?.len();
    file.set_len(length.saturating_sub(TORN_BYTES))?;
    Ok(format!("{TORN_BYTES} bytes of {length} are gone"))
}

fn flip(file: &Path, place: u64) -> io::Result<String> {
    let file = OpenOptions::new().read(true).write(true).open(file)?;
    let place = place % file.metadata()?.len();
    let mut byte = [0];
    file.read_exact_at(&mut byte, place)?;
    file.write_all_at(&[byte[0] ^ 0x10], place)?;
    Ok(format!("byte {place} has another value"))
}

pub(super) async fn wiped_data(world: &mut World) -> Injected {
    let node = world.follower().await?;
    world.cluster.node(node).kill().await.map_err(Skipped::NotNow)?;
    let data = world.cluster.node(node).data.clone();
    let saved = data.with_extension("saved");
    fs::rename(&data, &saved).map_err(|error| Skipped::NotNow(error.to_string()))?;
    world.cluster.start(node).map_err(Skipped::NotNow)?;
    Ok((format!("node {node}"), Undo::Disk(Damaged::Wiped { node, saved })))
}

/// Heals it. Returns the observed effect.
pub(super) async fn heal(world: &mut World, damaged: Damaged) -> Result<String, String> {
    match damaged {
        Damaged::Full { node, ballast } => {
            let mut ended = world.cluster.node(node).has_ended() || !world.cluster.node(node).runs();
            fs::remove_file(&ballast).map_err(|error| error.to_string())?;
            world.unusable_disks.remove(&node);
            world.start(&[node]);
            // A write that failed before there was space again may end it only now.
            if let Err(why) = world.cluster.ready(node, super::READY_WITHIN).await {
                ended = true;
                if !why.contains("No space left on device") {
                    world.complaints.push(format!("after a full disk: {why}"));
                }
            }
            world.restart(&[node]).await;
            Ok(format!("the disk was full{}", if ended { ", and the node ended" } else { "" }))
        }
        Damaged::Slow { node, seen } => {
            let control = Control::of(&world.folder, node)?;
            let now = control.seen().and_then(|now| control.delay_syncs(0).map(|()| now)).map_err(|error| error.to_string())?;
            if now == seen { Err("nothing was synced".to_owned()) } else { Ok(format!("{} syncs were slow", now - seen)) }
        }
        Damaged::Failing { node, pid } => {
            let control = Control::of(&world.folder, node)?;
            let left = control.syncs_to_fail().map_err(|error| error.to_string())?;
            control.fail_syncs(0).map_err(|error| error.to_string())?;
            let process = world.cluster.node(node);
            // Another fault may have killed it in the middle of that sync, and started it again.
            let ended = process.has_ended() || !process.runs() || process.pid() != pid;
            world.restart(&[node]).await;
            match (left, ended) {
                (0, true) => Ok("a sync failed, and the node ended".to_owned()),
                (0, false) => {
                    world.complaints.push(format!("node {node} continued after a sync had failed"));
                    Ok("a sync failed".to_owned())
                }
                (_, _) => Err("nothing was synced".to_owned()),
            }
        }
        Damaged::Frozen { node, mount } => {
            run("fsfreeze", &["-u", &mount.to_string_lossy()])?;
            world.unusable_disks.remove(&node);
            Ok(format!("node {node} could write nothing"))
        }
        Damaged::Spoilt { node, saved, what } => restore_files(world, node, &saved, &what).await,
        Damaged::Wiped { node, saved } => restore_data(world, node, &saved).await,
    }
}

/// A node with damaged files either drops data that was certainly never acknowledged, or refuses to start and reports
/// why; then its files are restored. If it serves wrong data, the checkers find it.
async fn restore_files(world: &mut World, node: usize, saved: &Path, what: &str) -> Result<String, String> {
    let data = world.cluster.node(node).data.clone();
    world.cluster.start(node)?;
    let started = world.cluster.ready(node, super::READY_WITHIN).await;
    let seen = match started {
        Ok(()) => format!("{what}; it started all the same"),
        Err(why) => {
            // Kill it if it still runs: it may wait for an operator.
            if world.cluster.node(node).runs() {
                world.cluster.node(node).kill().await?;
            }
            run("rm", &["-rf", &data.to_string_lossy()])?;
            restore_saved(saved, &data)?;
            world.restart(&[node]).await;
            return Ok(format!("{what}; it refused to start: {why}"));
        }
    };
    run("rm", &["-rf", &saved.to_string_lossy()])?;
    Ok(seen)
}

/// Restores files and syncs them, so that only the node can cause a later loss.
fn restore_saved(saved: &Path, data: &Path) -> Result<(), String> {
    fs::rename(saved, data).map_err(|error| error.to_string())?;
    run("sync", &["-f", &data.to_string_lossy()]).map(|_| ())
}

async fn restore_data(world: &mut World, node: usize, saved: &Path) -> Result<String, String> {
    let data = world.cluster.node(node).data.clone();
    let served = world.cluster.ready(node, Duration::from_millis(200)).await.is_ok();
    if served {
        world.complaints.push(format!("node {node} came back without its data and was accepted as a member"));
    }
    if world.cluster.node(node).runs() {
        world.cluster.node(node).kill().await?;
    }
    run("rm", &["-rf", &data.to_string_lossy()])?;
    restore_saved(saved, &data)?;
    world.restart(&[node]).await;
    Ok("it came back empty, and was refused".to_owned())
}
