//! One run: start, inject faults, heal, converge, judge, report.

use crate::{
    access::Identities,
    check::{self, Check, FaultCoverage, RunRequirements},
    client::ClientShared,
    cluster::{ChaosCluster, leader_of},
    history::{self, Found, History, Outcome, Recorder, Rest},
    http::{Http, Request},
    nemesis::{self, Fault, Rhythm, SUCCESSES_PER_FAULT, World},
    net::Network,
    report::{self, Report, Verdict},
    resource::Resource,
    workload::{self, Workload},
};
use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::task::JoinHandle;

/// How often to check for the leader.
const POLL_EVERY: Duration = Duration::from_millis(100);
/// How long a client may take to stop: its last request, and a sleep.
const CLIENTS_END_WITHIN: Duration = Duration::from_secs(30);
/// How long the clients' remaining sessions and grants may take to end: the longest ttl, and the tolerance of
/// the checker of ends.
const ALL_ENDS_WITHIN: Duration = Duration::from_secs(8);
/// How long the watches may take to show everything.
const WATCHES_END_WITHIN: Duration = Duration::from_secs(30);
/// The timeout of the reads at the end.
const READ_WITHIN: Duration = Duration::from_secs(5);
/// The minimum number of successes in each second of a run, whatever the faults.
const SUCCESSES_PER_SECOND: u64 = 5;

/// The course of the faults.
#[derive(Debug, Clone)]
pub(crate) enum Course {
    /// Each fault alone, and then single faults and pairs by the seed.
    Mixed,
    /// These rounds, one after the other.
    Rounds(Vec<Vec<Fault>>, Rhythm),
}

/// The plan of a run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) workloads: Vec<Workload>,
    pub(crate) faults: Vec<Fault>,
    /// The faults as requested.
    pub(crate) nemesis: String,
    pub(crate) course: Course,
    /// The length of the faults; for fixed rounds, an estimate.
    pub(crate) length: Duration,
    pub(crate) nodes: usize,
    pub(crate) clients: u64,
    /// How many of a thousand holders of fenced locks sleep for longer than their lease.
    pub(crate) sleepers: u32,
    pub(crate) seed: u64,
    pub(crate) folder: PathBuf,
    pub(crate) fairhold: PathBuf,
    /// The program of the cluster version before, for faults that change programs.
    pub(crate) older: PathBuf,
    /// Whether nodes and clients speak TLS, and access rights are enforced.
    pub(crate) is_secure: bool,
}

/// The judged result of a run.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) verdict: Verdict,
    pub(crate) text: String,
    pub(crate) history: History,
    pub(crate) checks: Vec<Check>,
    pub(crate) covers: Vec<FaultCoverage>,
    pub(crate) not_covered: BTreeMap<&'static str, String>,
}

/// The result of a run, before it is judged.
struct RunResult {
    history: History,
    not_covered: BTreeMap<&'static str, String>,
    complaints: Vec<String>,
}

/// Why there was no run.
#[derive(Debug)]
pub(crate) enum NotRun {
    /// This machine cannot run it: no root, no namespaces.
    NotHere(String),
    /// It failed.
    Failed(String),
}

impl From<String> for NotRun {
    fn from(why: String) -> NotRun {
        NotRun::Failed(why)
    }
}

/// Makes a run.
pub(crate) fn run(plan: &Plan) -> Result<Done, NotRun> {
    fs::create_dir_all(&plan.folder).map_err(|error| format!("{}: {error}", plan.folder.display()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    let outcome = runtime.block_on(live(plan))?;
    history::write_files(&outcome.history, &plan.folder).map_err(|error| format!("the history: {error}"))?;
    Ok(judge(plan, outcome)?)
}

async fn live(plan: &Plan) -> Result<RunResult, NotRun> {
    let machines = plan.nodes + nemesis::spares(&plan.faults);
    let network = Network::create(machines).map_err(NotRun::NotHere)?;
    let cluster = ChaosCluster::plan(&network, &plan.fairhold, &plan.folder, plan.nodes, plan.is_secure)?;
    for node in &cluster.nodes {
        let parent = node.data.parent().unwrap_or(&plan.folder);
        fs::create_dir_all(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
    }
    let recorder = Arc::new(Recorder::new(plan.nodes));
    let mut world = World::new(cluster, network, Arc::clone(&recorder), plan.seed, plan.folder.clone());
    world.prepare(&plan.faults, &plan.older);
    let started = start(plan, &mut world).await;
    let outcome = match started {
        Ok(identities) => Ok(run_with_faults(plan, &mut world, &identities, &recorder).await),
        Err(why) => Err(why.into()),
    };
    world.tidy();
    outcome
}

/// Starts the nodes, and prepares the access rights of the clients.
async fn start(plan: &Plan, world: &mut World) -> Result<Identities, String> {
    world.cluster.start_all().await?;
    if plan.is_secure { Identities::enforced(&world.cluster).await } else { Ok(Identities::open(&world.cluster.http)) }
}

async fn run_with_faults(plan: &Plan, world: &mut World, identities: &Identities, recorder: &Arc<Recorder>) -> RunResult {
    let shared = Arc::new(ClientShared {
        recorder: Arc::clone(recorder),
        resource: Resource::default(),
        over: AtomicBool::new(false),
        processes: AtomicU64::new(0),
        attempts: AtomicU64::new(0),
        sleepers: plan.sleepers,
    });
    let http = world.cluster.http.clone();
    let (at_rest, rest) = tokio::sync::watch::channel(0);
    let watches: Vec<JoinHandle<()>> = (1..=plan.nodes)
        .map(|node| tokio::spawn(workload::follow(node, identities.watcher.clone(), Arc::clone(&shared), rest.clone())))
        .collect();
    let leader_poll = tokio::spawn(poll_leader(http.clone(), Arc::clone(recorder)));
    let mut clients = Vec::new();
    for workload in &plan.workloads {
        clients.extend(workload::start(*workload, plan.clients, identities, &shared, plan.seed));
    }
    match &plan.course {
        Course::Mixed => world.inject_mixed(&plan.faults, plan.length, rhythm(plan)).await,
        Course::Rounds(rounds, rhythm) => world.rounds(rounds, *rhythm).await,
    }
    shared.over.store(true, Ordering::SeqCst);
    let mut complaints = Vec::new();
    if !all_end(clients, CLIENTS_END_WITHIN).await {
        complaints.push(format!("a client still waits for an answer {CLIENTS_END_WITHIN:?} after everything was healed"));
    }
    match come_to_rest(world, recorder).await {
        Ok(rest) => {
            at_rest.send_replace(rest.revision);
            // If a watch has not shown everything by then, its checker reports it.
            all_end(watches, WATCHES_END_WITHIN).await;
            recorder.rests(rest);
            read_again(&http, recorder).await;
        }
        Err(why) => complaints.push(why),
    }
    leader_poll.abort();
    complaints.append(&mut world.complaints);
    let history = recorder.finish(shared.resource.lost_without_fence());
    RunResult { history, not_covered: std::mem::take(&mut world.not_covered), complaints }
}

/// Waits until the nodes have the same state, and then until the clients' remaining sessions and grants have ended, or
/// should have.
async fn come_to_rest(world: &mut World, recorder: &Recorder) -> Result<Rest, String> {
    let clients_ended = recorder.now();
    world.cluster.come_to_rest().await?;
    let calm = recorder.now();
    let latest = calm + u64::try_from(ALL_ENDS_WITHIN.as_micros()).unwrap_or(u64::MAX);
    while recorder.living() > 0 && recorder.now() < latest {
        tokio::time::sleep(POLL_EVERY).await;
    }
    let until = recorder.now();
    write_end_marker(&world.cluster.http).await;
    let revision = world.cluster.come_to_rest().await?.revision;
    Ok(Rest { clients_ended, calm, until, revision })
}

/// Writes a node: watches may not show the last change of the clients, such as the release of an id without a grant.
async fn write_end_marker(http: &Http) {
    for node in http.serving() {
        let reply = http.ask(node, &Request::put("/v1/nodes/end-of-the-run", &crate::new_key(), "over")).await;
        if reply.outcome == Outcome::Ok {
            return;
        }
    }
}

/// Reads all nodes with an acknowledged write, each at one of the servers in turn.
async fn read_again(http: &Http, recorder: &Arc<Recorder>) {
    let (keys, serving) = (recorder.written(), http.serving());
    for (turn, key) in keys.into_iter().enumerate() {
        let path = if key.starts_with("chaos/") { format!("/v1/nodes/{key}") } else { format!("/v1/nodes/chaos/{key}") };
        let read = Request::get(path).within(READ_WITHIN, Duration::ZERO);
        let reply = http.ask(serving[turn % serving.len()], &read).await;
        let known = reply.outcome == Outcome::Ok || reply.code() == "no_node";
        recorder.found(Found { key, known, version: reply.version(), value: reply.text.clone() });
    }
}

/// Short runs have short faults and short quiet periods, so that each fault is injected.
fn rhythm(plan: &Plan) -> Rhythm {
    let rounds = u32::try_from(plan.faults.len().max(1)).unwrap_or(u32::MAX);
    let each = plan.length / rounds;
    let fault = (each / 2).clamp(Duration::from_millis(2_000), Duration::from_secs(5));
    Rhythm { fault, quiet: (each / 5).clamp(Duration::from_millis(500), Duration::from_secs(3)) }
}

async fn poll_leader(http: Http, recorder: Arc<Recorder>) {
    loop {
        if let Some((node, term)) = leader_of(&http).await {
            recorder.leads(node, term);
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}

/// Waits for all tasks, and aborts the rest. Returns whether all ended in time.
async fn all_end(tasks: Vec<JoinHandle<()>>, within: Duration) -> bool {
    let until = tokio::time::Instant::now() + within;
    let mut all = true;
    for mut task in tasks {
        if tokio::time::timeout_at(until, &mut task).await.is_err() {
            task.abort();
            all = false;
        }
    }
    all
}

fn judge(plan: &Plan, outcome: RunResult) -> Result<Done, String> {
    let began = Instant::now();
    let RunResult { history, not_covered, complaints } = outcome;
    let checks = check::all(&history);
    let successes = usize::try_from(plan.length.as_secs() * SUCCESSES_PER_SECOND).unwrap_or(usize::MAX);
    let alone: Vec<Fault> = match &plan.course {
        Course::Mixed => plan.faults.clone(),
        Course::Rounds(rounds, _) => rounds.iter().filter(|round| round.len() == 1).flatten().copied().collect(),
    };
    let requirements = RunRequirements {
        faults: &plan.faults,
        alone: &alone,
        not_covered: &not_covered,
        successes,
        successes_each: SUCCESSES_PER_FAULT,
    };
    let (covers, mut missing) = check::coverage(&history, &requirements);
    missing.extend(check::blind(&plan.workloads, &checks));
    let report = Report {
        command: command(plan),
        history: &history,
        checks: &checks,
        covers: &covers,
        missing: &missing,
        complaints: &complaints,
        not_covered: &not_covered,
        check_millis: began.elapsed().as_millis(),
    };
    let text = report::text(&report);
    let write = |name: &str, text: &str| fs::write(plan.folder.join(name), text).map_err(|error| format!("{name}: {error}"));
    write("report.txt", &text)?;
    write("report.html", &report::page(&report))?;
    let verdict = report.verdict();
    Ok(Done { verdict, text, history, checks, covers, not_covered })
}

/// The command that repeats the run; for a part of a campaign, its description.
fn command(plan: &Plan) -> String {
    let workloads: Vec<&str> = plan.workloads.iter().map(|workload| workload.name()).collect();
    format!(
        "fairhold-jepsen {}--workload {} {} {} --seconds {} --nodes {} --clients {} --seed {}",
        if plan.is_secure { "--secure " } else { "" },
        workloads.join(","),
        if matches!(plan.course, Course::Mixed) { "--nemesis" } else { "in a campaign, as part" },
        if plan.nemesis.is_empty() { "none" } else { &plan.nemesis },
        plan.length.as_secs(),
        plan.nodes,
        plan.clients,
        plan.seed,
    )
}
