//! A whole cluster on this machine: real processes of this program, supervised by this one.
//!
//! ```text
//! run ─┬─ supervisor 1 ── node 1     starts its node, forwards its log, restarts it when it has died,
//!      ├─ supervisor 2 ── node 2     and reports to `run`, which alone writes to stdout
//!      ├─ supervisor 3 ── node 3
//!      ├─ readiness                  polls every node until all are ready
//!      └─ demo                       clients and the live view, with --demo
//! ```

use self::error::{ended_how, is_final};

pub(crate) mod args;
mod certificates;
mod data;
mod error;
mod plan;
mod readiness;
mod security;
mod supervisor;

pub(crate) use error::DevError;
pub(crate) use plan::DevPlan;

use crate::{
    demo::{self, frame::Pids},
    dev::args::DevArgs,
    local_http::{client_for, http_client},
    output::write_stdout,
    signals::StopSignals,
};
use data::Data;
use readiness::ANSWER_TIMEOUT;
use reqwest::Client;
use security::DevSecurity;
use std::{
    io::{self, IsTerminal},
    net::TcpListener,
    time::Duration,
};
use supervisor::{ChildEvent, ChildSupervisor, LogTarget};
use tokio::{
    sync::{mpsc, watch},
    task::{JoinHandle, JoinSet},
};

/// The most unread events of the supervisors. A supervisor with one more waits.
const EVENTS_MAX: usize = 64;
/// How long a node that has died stays down.
const RESTART_PAUSE: Duration = Duration::from_secs(2);

/// Runs the cluster until a stop signal arrives.
pub(crate) fn run(plan: DevPlan, args: DevArgs) -> Result<(), DevError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut signals = {
        let _context = runtime.enter();
        StopSignals::new()?
    };
    check_ports(&plan)?;
    let data = Data::prepare(args.dir.as_deref())?;
    if data.is_temporary() {
        eprintln!("dev: data in {} (removed at the end; --dir keeps it)", data.path().display());
    }
    let prepare = || DevSecurity::prepare(data.path(), &plan, args.admin_token_file.as_deref());
    let security = args.secure.then(prepare).transpose();
    let result = security.and_then(|security| {
        let dev = Dev { plan: &plan, args: &args, data: &data, security };
        runtime.block_on(supervise(&dev, &mut signals))
    });
    data.remove_if_temporary();
    result
}

/// Checks all ports before any process starts: this gives one message, with advice.
fn check_ports(plan: &DevPlan) -> Result<(), DevError> {
    for address in plan.nodes().flat_map(|node| [node.client_address(), node.peer_address()]) {
        TcpListener::bind(&address).map_err(|error| DevError::Port { address, error })?;
    }
    Ok(())
}

/// What all parts of a development cluster need to know.
struct Dev<'a> {
    plan: &'a DevPlan,
    args: &'a DevArgs,
    data: &'a Data,
    /// With `--secure`.
    security: Option<DevSecurity>,
}

impl Dev<'_> {
    /// A client that asks whether the nodes are ready.
    fn readiness_client(&self) -> Result<Client, DevError> {
        match &self.security {
            None => Ok(http_client(ANSWER_TIMEOUT)),
            Some(security) => client_for(&[], ANSWER_TIMEOUT, &security.client_tls(), None)
                .map_err(|failure| DevError::Client(failure.to_string())),
        }
    }

    /// Waits until all nodes are ready and, with `--secure`, enforce rights.
    async fn until_usable(&self, client: &Client) -> Result<(), DevError> {
        readiness::all_ready(self.plan, client).await;
        match &self.security {
            None => Ok(()),
            Some(security) => security.enforce_rights(self.plan).await,
        }
    }

    /// The demo's clients, as the user of `--secure`.
    fn demo(&self, pids: watch::Receiver<Pids>) -> Result<demo::Demo, DevError> {
        let demo = demo::Demo::new(self.plan.urls(), pids, self.data.path(), !self.args.no_restart);
        match &self.security {
            None => Ok(demo),
            Some(security) => Ok(demo.secured(security.client_tls(), security.user_token()?)),
        }
    }

    fn next_steps(&self) -> String {
        match &self.security {
            None => self.plan.next_steps(),
            Some(security) => self.plan.secure_next_steps(&security.variables()),
        }
    }
}

/// The supervisors and other tasks. All of them end when `stop` becomes true, or when this is dropped.
struct RunningDev {
    supervisors: JoinSet<()>,
    stop: watch::Sender<bool>,
    pids: watch::Sender<Pids>,
    demo: Option<JoinHandle<io::Result<()>>>,
}

async fn supervise(dev: &Dev<'_>, signals: &mut StopSignals) -> Result<(), DevError> {
    let (events_in, mut events) = mpsc::channel(EVENTS_MAX);
    let mut running = start(dev, &events_in)?;
    drop(events_in);
    let result = tokio::select! {
        biased;
        signal = signals.received() => {
            eprintln!("dev: {signal}: stopping all nodes");
            Ok(())
        }
        ended = follow_events(dev, &mut running, &mut events) => ended,
    };
    // A supervisor may be waiting to send an event that nobody reads any more.
    drop(events);
    running.stop.send_replace(true);
    tokio::select! {
        biased;
        signal = signals.received() => {
            eprintln!("dev: {signal} again: killing all nodes");
            running.supervisors.shutdown().await;
        }
        () = all_ended(&mut running.supervisors) => {}
    }
    if let Some(demo) = running.demo {
        ended_demo(demo.await)?;
    }
    match result {
        Err(DevError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Ok(()) | Err(_) => result,
    }
}

/// Whether the demo draws a live view, which nothing else may overwrite.
fn has_live_view(args: &DevArgs) -> bool {
    args.demo && io::stdout().is_terminal()
}

async fn all_ended(supervisors: &mut JoinSet<()>) {
    while supervisors.join_next().await.is_some() {}
}

fn start(dev: &Dev<'_>, events: &mpsc::Sender<ChildEvent>) -> Result<RunningDev, DevError> {
    let Dev { plan, args, data, security } = dev;
    let (stop, stopped) = watch::channel(false);
    let mut supervisors = JoinSet::new();
    let peer_key = data.peer_key_file()?;
    for node in plan.nodes() {
        let logs = if has_live_view(args) && io::stderr().is_terminal() {
            LogTarget::File(data.log_file(node.id()))
        } else {
            LogTarget::Stderr
        };
        let mut serve_args = plan.serve_args(node, data.path(), &peer_key);
        match (security, &args.admin_token_file) {
            (Some(security), _) => serve_args.extend(security.serve_args(node.id())),
            (None, Some(file)) => serve_args.extend(["--admin-token-file".into(), file.clone().into_os_string()]),
            (None, None) => {}
        }
        if let Some(folder) = &args.ui_dir {
            serve_args.extend(["--ui-dir".into(), folder.clone().into_os_string()]);
        }
        let supervisor = ChildSupervisor::new(node.id(), serve_args, logs, (!args.no_restart).then_some(RESTART_PAUSE))?;
        supervisors.spawn(supervisor.run(events.clone(), stopped.clone()));
    }
    let pids = watch::Sender::new(plan.nodes().map(|node| (node.id(), None)).collect());
    Ok(RunningDev { supervisors, stop, pids, demo: None })
}

/// Reports events: on stdout until the cluster is ready, then on stderr. Returns when the demo ends, when stdout is
/// closed, or when the cluster cannot run.
async fn follow_events(dev: &Dev<'_>, running: &mut RunningDev, events: &mut mpsc::Receiver<ChildEvent>) -> Result<(), DevError> {
    let Dev { plan, args, .. } = dev;
    let client = dev.readiness_client()?;
    let mut waiting = std::pin::pin!(dev.until_usable(&client));
    let mut ready = false;
    loop {
        tokio::select! {
            biased;
            Some(event) = events.recv() => handle_event(plan, args, event, ready, &running.pids)?,
            usable = &mut waiting, if !ready => {
                usable?;
                ready = true;
                write_stdout(&plan.ready_line())?;
                if !args.demo {
                    eprint!("{}", dev.next_steps());
                }
                if args.demo {
                    let demo = dev.demo(running.pids.subscribe())?;
                    running.demo = Some(tokio::spawn(demo.run(running.stop.subscribe())));
                }
            }
            ended = finished(&mut running.demo) => return ended_demo(ended),
        }
    }
}

/// Waits for the demo to end; forever if there is none.
async fn finished(demo: &mut Option<JoinHandle<io::Result<()>>>) -> Result<io::Result<()>, tokio::task::JoinError> {
    match demo {
        Some(handle) => {
            let ended = handle.await;
            *demo = None;
            ended
        }
        None => std::future::pending().await,
    }
}

fn ended_demo(ended: Result<io::Result<()>, tokio::task::JoinError>) -> Result<(), DevError> {
    let ended = ended.unwrap_or_else(|error| Err(io::Error::other(format!("the demo failed: {error}"))));
    crate::output::unless_closed(ended).map_err(DevError::Io)
}

fn handle_event(
    plan: &DevPlan,
    args: &DevArgs,
    event: ChildEvent,
    ready: bool,
    pids: &watch::Sender<Pids>,
) -> Result<(), DevError> {
    let set = |id, pid| {
        pids.send_modify(|pids| {
            pids.insert(id, pid);
        });
    };
    match event {
        ChildEvent::Started { id, pid } => {
            set(id, Some(pid));
            match (ready, has_live_view(args)) {
                (false, _) => write_stdout(&plan.node_line(id, pid))?,
                (true, false) => eprintln!("dev: {}", plan.node_line(id, pid).trim_end()),
                // The live view shows the pid.
                (true, true) => {}
            }
        }
        ChildEvent::Ended { id, pid, status } => {
            set(id, None);
            if !ready && status.code().is_some() {
                return Err(DevError::NodeFailed { id, status });
            }
            if !has_live_view(args) {
                let next = if args.no_restart || is_final(status) { "not restarting it" } else { "restarting it in 2 s" };
                eprintln!("dev: node {id} (pid {pid}) {}; {next}", ended_how(status));
            }
        }
        ChildEvent::CannotStart { id, error } => return Err(DevError::Spawn { id, error }),
    }
    Ok(())
}
