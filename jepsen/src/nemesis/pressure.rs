//! Faults of scarcity: processor, memory, connections.

use super::{Injected, Skipped, Undo, World, process::Freezer};
use crate::{cluster::CLIENT_PORT, shell::run_line};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{io::AsyncWriteExt, net::TcpStream, sync::oneshot};

const CONTROLLERS: &str = "/sys/fs/cgroup";
/// A tenth of a processor: 10 ms of each 100 ms.
const CPU_QUOTA_US: u32 = 10_000;
/// The additional memory that a process may use.
const MEMORY_HEADROOM: u64 = 1024 * 1024;
const SLOW_CLIENTS: usize = 300;
/// The beginning of a request that never ends.
const SLOW_REQUEST: &[u8] = b"POST /v1/locks/slow HTTP/1.1\r\nHost: x\r\nx-slow: ";
/// The beginning of a TLS handshake of 16 KiB.
const SLOW_HELLO: &[u8] = &[0x16, 0x03, 0x01, 0x40, 0x00, 0x01, 0x00, 0x3f, 0xfc];
/// The time between two bytes of a slow client.
const BYTE_EVERY: Duration = Duration::from_secs(1);

/// A fault in effect.
#[derive(Debug)]
pub(super) enum Pressure {
    Frozen { node: usize, group: Freezer },
    Cpu(Group),
    Memory { node: usize, group: Group },
    Clients { task: tokio::task::JoinHandle<usize>, stop: oneshot::Sender<()> },
}

pub(super) async fn cpu(world: &mut World) -> Injected {
    let leader = world.leader().await?;
    let group = Group::around(world, leader, "cpu")?;
    group.write("cpu.cfs_quota_us", &CPU_QUOTA_US.to_string()).map_err(Skipped::NotHere)?;
    Ok((format!("node {leader}"), Undo::Pressure(Pressure::Cpu(group))))
}

pub(super) async fn memory(world: &mut World) -> Injected {
    let follower = world.follower().await?;
    let group = Group::around(world, follower, "memory")?;
    // Its memory from before it joined the group is not counted there.
    group.write("memory.limit_in_bytes", &MEMORY_HEADROOM.to_string()).map_err(Skipped::NotHere)?;
    let detail = format!("node {follower} gets {} MiB more at most", MEMORY_HEADROOM / 1024 / 1024);
    Ok((detail, Undo::Pressure(Pressure::Memory { node: follower, group })))
}

pub(super) async fn slow_clients(world: &mut World) -> Injected {
    let leader = world.leader().await?;
    let address = format!("{}:{CLIENT_PORT}", world.network.address(leader));
    let begin = if world.cluster.security.is_some() { SLOW_HELLO } else { SLOW_REQUEST };
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(attack(address, begin, stopped));
    Ok((format!("node {leader}"), Undo::Pressure(Pressure::Clients { task, stop })))
}

/// Heals it. Returns the observed effect.
pub(super) async fn heal(world: &mut World, pressure: Pressure) -> Result<String, String> {
    match pressure {
        Pressure::Frozen { node, group } => group.thaw().map(|seen| format!("node {node}: {seen}")),
        Pressure::Cpu(group) => {
            let stat = group.read("cpu.stat");
            let throttled = stat.lines().find_map(|line| line.strip_prefix("nr_throttled ")?.parse::<u64>().ok()).unwrap_or(0);
            if throttled == 0 { Err("it never reached the limit".to_owned()) } else { Ok(format!("held back {throttled} times")) }
        }
        Pressure::Memory { node, group } => {
            let hits: u64 = group.read("memory.failcnt").trim().parse().unwrap_or(0);
            let ended = !world.cluster.node(node).runs();
            drop(group);
            match (hits, ended) {
                (0, false) => Err("it never reached the limit".to_owned()),
                (hits, false) => Ok(format!("at its limit {hits} times")),
                (hits, true) => Ok(format!("at its limit {hits} times, and killed")),
            }
        }
        Pressure::Clients { task, stop } => {
            drop(stop);
            let opened = task.await.map_err(|error| error.to_string())?;
            if opened == 0 { Err("no connection was taken".to_owned()) } else { Ok(format!("{opened} connections")) }
        }
    }
}

/// Clients that each send something byte by byte, and never finish it.
async fn attack(address: String, begin: &[u8], mut stopped: oneshot::Receiver<()>) -> usize {
    let mut open = Vec::new();
    for _ in 0..SLOW_CLIENTS {
        let connected = tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(&address)).await;
        let Ok(Ok(mut stream)) = connected else { continue };
        if stream.write_all(begin).await.is_ok() {
            open.push(stream);
        }
    }
    let opened = open.len();
    while tokio::time::timeout(BYTE_EVERY, &mut stopped).await.is_err() {
        let mut left = Vec::new();
        for mut stream in open {
            if stream.write_all(b"x").await.is_ok() {
                left.push(stream);
            }
        }
        open = left;
    }
    opened
}

/// A control group of version 1 around one process; undone when dropped.
#[derive(Debug)]
pub(super) struct Group {
    folder: PathBuf,
    controller: &'static str,
}

impl Group {
    fn around(world: &mut World, node: usize, controller: &'static str) -> Result<Group, Skipped> {
        let pid = world.cluster.node(node).pid().ok_or_else(|| Skipped::NotNow("it has ended".to_owned()))?;
        let root = Path::new(CONTROLLERS).join(controller);
        if !root.join("cgroup.procs").exists() {
            return Err(Skipped::NotHere(format!("there is no controller at {}", root.display())));
        }
        let folder = root.join(format!("fhc-{pid}"));
        fs::create_dir_all(&folder).map_err(|error| Skipped::NotHere(format!("{}: {error}", folder.display())))?;
        let group = Group { folder, controller };
        group.write("cgroup.procs", &pid.to_string()).map_err(Skipped::NotHere)?;
        Ok(group)
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        fs::write(self.folder.join(file), text).map_err(|error| format!("{}/{file}: {error}", self.folder.display()))
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.folder.join(file)).unwrap_or_default()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for pid in self.read("cgroup.procs").lines() {
            // The process may have exited in the meantime.
            drop(fs::write(Path::new(CONTROLLERS).join(self.controller).join("cgroup.procs"), pid));
        }
        drop(run_line(&format!("rmdir {}", self.folder.display())));
    }
}
