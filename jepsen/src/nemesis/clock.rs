//! Faults of clocks, by a library that is loaded into the nodes. It also slows or fails disk syncs.

use super::{Class, Fault, Injected, Skipped, Undo, World};
use rustix::time::{ClockId, clock_gettime};
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};
use tokio::sync::oneshot;

/// The library's source.
const SHIM: &str = include_str!("../shim.c");
/// The true rate of a clock.
const TRUE_RATE: i64 = 1_000_000;
/// The factor of a fast clock.
pub(crate) const FAST: i64 = 5;
/// The divisor of a slow clock.
pub(crate) const SLOW: i64 = 2;
const HOUR_NS: i64 = 3_600_000_000_000;
/// The time between two jumps of the wall clocks.
const STROBE_EVERY: Duration = Duration::from_millis(200);
/// The size of the mapped page.
const CONTROL_BYTES: usize = 4_096;

/// The offsets of the fields of the library's `struct control`.
const GENERATION: u64 = 0;
const WALL_SHIFT: u64 = 8;
const RATE: u64 = 16;
const BASE_TRUE: u64 = 24;
const BASE_SHOWN: u64 = 32;
const SYNC_DELAY: u64 = 40;
const SYNCS_TO_FAIL: u64 = 48;
const SEEN: u64 = 56;

/// The control file of a node's library.
#[derive(Debug)]
pub(super) struct Control(File);

/// Clocks that are wrong.
#[derive(Debug)]
pub(super) struct Skewed {
    pub(super) nodes: Vec<usize>,
    seen: u64,
    strobe: Option<(tokio::task::JoinHandle<()>, oneshot::Sender<()>)>,
}

/// Whether a fault needs the library.
fn is_wanted(fault: Fault) -> bool {
    fault.class() == Class::Clock || matches!(fault, Fault::SlowSync | Fault::SlowFollowerSync | Fault::SyncError)
}

/// Compiles the library and has it loaded into each node from its next start on.
pub(super) fn prepare(world: &mut World, faults: &[Fault]) {
    let wanted: Vec<Fault> = faults.iter().copied().filter(|fault| is_wanted(*fault)).collect();
    if wanted.is_empty() {
        return;
    }
    let made = compile(&world.folder).and_then(|library| {
        let ids = world.machines();
        ids.into_iter().try_for_each(|id| {
            let path = control_path(&world.folder, id);
            fs::write(&path, [0; CONTROL_BYTES]).map_err(|error| format!("{}: {error}", path.display()))?;
            let variables = [("LD_PRELOAD", library.clone().into_os_string()), ("FAIRHOLD_CHAOS_CONTROL", path.into_os_string())];
            world.cluster.node(id).environment.extend(variables);
            Ok(())
        })
    });
    if let Err(why) = made {
        world.not_covered.extend(wanted.into_iter().map(|fault| (fault.name(), why.clone())));
    }
}

fn control_path(folder: &Path, id: usize) -> PathBuf {
    folder.join(format!("control-{id}"))
}

fn compile(folder: &Path) -> Result<PathBuf, String> {
    let (source, library) = (folder.join("shim.c"), folder.join("shim.so"));
    fs::write(&source, SHIM).map_err(|error| format!("{}: {error}", source.display()))?;
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(&compiler);
    command.args(["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source);
    let run = command.output().map_err(|error| format!("there is no C compiler ({}: {error})", compiler.display()))?;
    if run.status.success() { Ok(library) } else { Err(format!("the library: {}", String::from_utf8_lossy(&run.stderr))) }
}

pub(super) async fn wall_forward(world: &mut World) -> Injected {
    let leader = world.leader().await?;
    skew(world, leader, |control| control.shift_wall(HOUR_NS))
}

pub(super) async fn wall_back(world: &mut World) -> Injected {
    let follower = world.follower().await?;
    skew(world, follower, |control| control.shift_wall(-HOUR_NS))
}

pub(super) async fn fast_clock(world: &mut World) -> Injected {
    let leader = world.leader().await?;
    skew(world, leader, |control| control.run_at(FAST * TRUE_RATE))
}

pub(super) async fn slow_clock(world: &mut World) -> Injected {
    let leader = world.leader().await?;
    skew(world, leader, |control| control.run_at(TRUE_RATE / SLOW))
}

pub(super) async fn fast_follower_clock(world: &mut World) -> Injected {
    let follower = world.follower().await?;
    skew(world, follower, |control| control.run_at(FAST * TRUE_RATE))
}

pub(super) async fn slow_follower_clock(world: &mut World) -> Injected {
    let follower = world.follower().await?;
    skew(world, follower, |control| control.run_at(TRUE_RATE / SLOW))
}

pub(super) fn wall_strobe(world: &World) -> Injected {
    let nodes = world.nodes();
    let seen = seen(world, &nodes);
    let strobe = Some(start_strobe(world, &nodes)?);
    Ok(("all nodes".to_owned(), Undo::Clock(Skewed { nodes, seen, strobe })))
}

fn skew(world: &World, node: usize, change: impl Fn(&Control) -> io::Result<()>) -> Injected {
    let nodes = vec![node];
    let seen = seen(world, &nodes);
    let control = Control::of(&world.folder, node).map_err(Skipped::NotHere)?;
    change(&control).map_err(|error| Skipped::NotHere(error.to_string()))?;
    Ok((format!("node {node}"), Undo::Clock(Skewed { nodes, seen, strobe: None })))
}

fn start_strobe(world: &World, nodes: &[usize]) -> Result<(tokio::task::JoinHandle<()>, oneshot::Sender<()>), Skipped> {
    let opened: Result<Vec<Control>, String> = nodes.iter().map(|id| Control::of(&world.folder, *id)).collect();
    let controls = opened.map_err(Skipped::NotHere)?;
    let (stop, mut stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        let mut turn = 0;
        while tokio::time::timeout(STROBE_EVERY, &mut stopped).await.is_err() {
            turn += 1;
            for (index, control) in controls.iter().enumerate() {
                let shift = if (turn + index).is_multiple_of(2) { HOUR_NS } else { -HOUR_NS };
                if let Err(error) = control.shift_wall(shift) {
                    crate::log_line(&format!("a clock could not be set: {error}"));
                }
            }
        }
    });
    Ok((task, stop))
}

/// Restores the clocks, without a jump of the monotonic ones.
pub(super) async fn heal(world: &mut World, skewed: Skewed) -> Result<String, String> {
    if let Some((task, stop)) = skewed.strobe {
        drop(stop);
        task.await.map_err(|error| error.to_string())?;
    }
    let reads = seen(world, &skewed.nodes).saturating_sub(skewed.seen);
    for id in &skewed.nodes {
        let control = Control::of(&world.folder, *id)?;
        control.shift_wall(0).and_then(|()| control.run_at(TRUE_RATE)).map_err(|error| error.to_string())?;
    }
    if reads == 0 { Err("no clock was read".to_owned()) } else { Ok(format!("read {reads} times")) }
}

/// How often the nodes have read a clock or synced during a fault.
fn seen(world: &World, nodes: &[usize]) -> u64 {
    let of =
        |id: &usize| Control::of(&world.folder, *id).and_then(|control| control.get(SEEN).map_err(|error| error.to_string()));
    nodes.iter().map(|id| of(id).unwrap_or(0)).sum::<i64>().unsigned_abs()
}

impl Control {
    /// The control of a node; an error if the library was not prepared.
    pub(super) fn of(folder: &Path, id: usize) -> Result<Control, String> {
        let path = control_path(folder, id);
        let file = OpenOptions::new().read(true).write(true).open(&path);
        file.map(Control).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn get(&self, field: u64) -> io::Result<i64> {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, field)?;
        Ok(i64::from_ne_bytes(bytes))
    }

    fn put(&self, fields: &[(u64, i64)]) -> io::Result<()> {
        let generation = self.get(GENERATION)?;
        let write = |field: u64, value: i64| self.0.write_all_at(&value.to_ne_bytes(), field);
        write(GENERATION, generation + 1)?;
        fields.iter().try_for_each(|(field, value)| write(*field, *value))?;
        write(GENERATION, generation + 2)
    }

    fn shift_wall(&self, nanoseconds: i64) -> io::Result<()> {
        self.put(&[(WALL_SHIFT, nanoseconds)])
    }

    /// Runs at that rate from now on, without a jump.
    fn run_at(&self, rate: i64) -> io::Result<()> {
        let (base_true, base_shown, old_rate) = (self.get(BASE_TRUE)?, self.get(BASE_SHOWN)?, self.get(RATE)?);
        let time = clock_gettime(ClockId::Monotonic);
        let now = time.tv_sec * 1_000_000_000 + time.tv_nsec;
        let passed = i128::from(now - base_true) * i128::from(old_rate) / i128::from(TRUE_RATE);
        let shown = if base_true == 0 { now } else { base_shown + i64::try_from(passed).map_err(io::Error::other)? };
        if base_true == 0 && rate == TRUE_RATE {
            return Ok(());
        }
        self.put(&[(RATE, rate), (BASE_TRUE, now), (BASE_SHOWN, shown)])
    }

    /// Delays each sync.
    pub(super) fn delay_syncs(&self, microseconds: i64) -> io::Result<()> {
        self.put(&[(SYNC_DELAY, microseconds)])
    }

    /// The next syncs fail, this many of them.
    pub(super) fn fail_syncs(&self, count: i64) -> io::Result<()> {
        self.put(&[(SYNCS_TO_FAIL, count)])
    }

    /// How many failures remain.
    pub(super) fn syncs_to_fail(&self) -> io::Result<i64> {
        self.get(SYNCS_TO_FAIL)
    }

    /// How often a fault was observed.
    pub(super) fn seen(&self) -> io::Result<i64> {
        self.get(SEEN)
    }
}
