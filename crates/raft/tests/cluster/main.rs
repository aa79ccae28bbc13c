//! Whole clusters in one process: network and logs in memory, the real Raft and the real state machine.

#![expect(clippy::unwrap_used, reason = "this is test code: a panic fails the test")]

mod copies;
mod figures;
mod finalizer;
mod forwarding;
mod large_values;
mod log;
mod lost_entries;
mod membership;
mod net;
mod revocations;
mod slow_disks;
mod stale;
mod upgrade;

use bytes::Bytes;
use fairhold_raft::{
    ApplyObserver, FatalReason, FormationError, Joined, LeaderHandler, MemberAddress, MemberHandler, PeerService, Replica,
    ReplicaConfig, Role,
    defect::NoDefectStore,
    error::{NotProposed, ProposeError, ReadError, UnknownReason},
    peer::{ConnectionSide, Introduction, Lane, Refusal},
    snapshot::{ImageStore, SnapshotImage},
};
use fairhold_state::{
    State,
    command::{Answer, Command, Event, Meta, OpenSession, Outcome, WriteKey},
};
use fairhold_types::{ClusterId, GrantId, Incarnation, NodeId, Revision, SessionId, SupportedVersions, time::WallMillis};
use futures_util::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use log::MemoryLog;
use net::Net;
use openraft_rt_tokio::TokioRuntime;
use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

type Instant = <TokioRuntime as openraft::AsyncRuntime>::Instant;

/// Far enough away that only a defect reaches it.
fn soon() -> Instant {
    after(Duration::from_secs(30))
}

fn after(duration: Duration) -> Instant {
    <Instant as openraft::Instant>::now() + duration
}

/// The newest snapshot, its size in bytes, and whether saving waits.
#[derive(Clone, Default)]
struct MemorySnapshots(Arc<Mutex<Option<SnapshotImage>>>, tokio::sync::watch::Sender<usize>, tokio::sync::watch::Sender<bool>);

impl MemorySnapshots {
    fn bytes(&self) -> usize {
        *self.1.borrow()
    }

    /// Sets whether saving waits.
    fn hold(&self, held: bool) {
        self.2.send_replace(held);
    }

    /// Waits until the size satisfies a condition.
    async fn until(&self, there: impl Fn(usize) -> bool) {
        self.1.subscribe().wait_for(|bytes| there(*bytes)).await.unwrap();
    }
}

impl ImageStore for MemorySnapshots {
    fn save(&self, image: SnapshotImage) -> BoxFuture<'static, io::Result<()>> {
        let kept = self.clone();
        let held = self.2.clone();
        async move {
            held.subscribe().wait_for(|held| !held).await.unwrap();
            let bytes = image.blocks.iter().map(Bytes::len).sum();
            *kept.0.lock().unwrap() = Some(image);
            kept.1.send_replace(bytes);
            Ok(())
        }
        .boxed()
    }

    fn load(&self) -> BoxFuture<'static, io::Result<Option<SnapshotImage>>> {
        let image = self.0.lock().unwrap().clone();
        async { Ok(image) }.boxed()
    }
}

/// Records every change.
#[derive(Default)]
struct Recorder {
    events: Mutex<Vec<(Revision, Event)>>,
    /// The revisions of all changes, including those without events.
    changes: Mutex<Vec<Revision>>,
    replaced: AtomicUsize,
}

impl ApplyObserver for Recorder {
    fn applied(&self, state: &State, revision: Revision, events: &[Event]) {
        assert_eq!(state.revision(), revision, "the state must be the one after the change");
        self.changes.lock().unwrap().push(revision);
        self.events.lock().unwrap().extend(events.iter().map(|event| (revision, event.clone())));
    }

    fn replaced(&self, _: &State) {
        self.replaced.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a node keeps across a restart.
#[derive(Clone)]
struct Disk {
    incarnation: Incarnation,
    log: MemoryLog,
    snapshots: MemorySnapshots,
}

impl Disk {
    fn new(incarnation: u128) -> Disk {
        Disk { incarnation: Incarnation(incarnation), log: MemoryLog::default(), snapshots: MemorySnapshots::default() }
    }

    /// A copy of this disk's current contents.
    fn copy(&self) -> Disk {
        let snapshots = MemorySnapshots(
            Arc::new(Mutex::new(self.snapshots.0.lock().unwrap().clone())),
            self.snapshots.1.clone(),
            self.snapshots.2.clone(),
        );
        Disk { incarnation: self.incarnation, log: self.log.copy(), snapshots }
    }
}

struct Cluster {
    net: Net,
    size: u64,
    disks: BTreeMap<NodeId, Disk>,
    nodes: BTreeMap<NodeId, Replica<TokioRuntime>>,
    recorders: BTreeMap<NodeId, Arc<Recorder>>,
    snapshot_every: u64,
    election_timeout_ms: Option<(u64, u64)>,
    tune: fn(&mut ReplicaConfig),
    /// What the nodes learned that joined later.
    joined: BTreeMap<NodeId, Joined>,
}

impl Cluster {
    /// Starts all nodes and waits until each is part of the cluster.
    async fn form(size: u64, snapshot_every: u64) -> Cluster {
        Cluster::form_with(size, snapshot_every, None).await
    }

    /// A cluster that has its name and its version: all nodes have introduced themselves.
    async fn form_new(size: u64, snapshot_every: u64) -> Cluster {
        let cluster = Cluster::form(size, snapshot_every).await;
        cluster.open_session(1).await.unwrap();
        cluster.node(1).read_barrier(soon()).await.unwrap();
        cluster
    }

    /// A cluster in which no lease ends during a test.
    async fn patient(size: u64) -> Cluster {
        Cluster::form_with(size, 1_000, Some((60_000, 120_000))).await
    }

    async fn form_with(size: u64, snapshot_every: u64, election_timeout_ms: Option<(u64, u64)>) -> Cluster {
        Cluster::form_tuned(size, snapshot_every, election_timeout_ms, |_| ()).await
    }

    /// A cluster with a changed configuration.
    async fn tuned(size: u64, snapshot_every: u64, tune: fn(&mut ReplicaConfig)) -> Cluster {
        Cluster::form_tuned(size, snapshot_every, None, tune).await
    }

    async fn form_tuned(
        size: u64,
        snapshot_every: u64,
        election_timeout_ms: Option<(u64, u64)>,
        tune: fn(&mut ReplicaConfig),
    ) -> Cluster {
        let disks = (1..=size).map(|id| (id, Disk::new(u128::from(id) * 100))).collect();
        let mut cluster = Cluster {
            net: Net::new(),
            size,
            disks,
            nodes: BTreeMap::new(),
            recorders: BTreeMap::new(),
            snapshot_every,
            election_timeout_ms,
            tune,
            joined: BTreeMap::new(),
        };
        for id in 1..=size {
            cluster.start(id).await;
        }
        for node in cluster.nodes.values() {
            node.formed().await.unwrap();
        }
        cluster
    }

    async fn start(&mut self, id: NodeId) {
        let member = |id: u64| (id, MemberAddress { url: format!("http://n{id}:1"), address: format!("n{id}:2") });
        let disk = self.disks[&id].clone();
        let mut config = ReplicaConfig::new(id, (1..=self.size).map(member).collect(), disk.incarnation);
        config.snapshot_every = self.snapshot_every;
        config.log_kept = 5;
        config.election_timeout_ms = self.election_timeout_ms.unwrap_or(config.election_timeout_ms);
        if let Some(joined) = self.joined.get(&id) {
            let address = |(id, url, address): &(NodeId, String, String)| {
                (*id, MemberAddress { url: url.clone(), address: address.clone() })
            };
            config.members = joined.members.iter().map(address).collect();
            config.cluster = Some(joined.cluster);
            config.joined = true;
        }
        (self.tune)(&mut config);
        let peer_service = PeerService::new(&config);
        let recorder = Arc::new(Recorder::default());
        let peer = self.net.peer(peer_service.service());
        let replica = Replica::start(
            config,
            peer_service,
            peer,
            disk.log,
            Arc::new(disk.snapshots),
            recorder.clone(),
            Arc::new(NoDefectStore),
        )
        .await
        .unwrap();
        self.net.plug_in(id, replica.service());
        self.nodes.insert(id, replica);
        self.recorders.insert(id, recorder);
    }

    /// Three nodes, one of them stopped. Also returns the leader and the stopped node.
    async fn without_a_follower(snapshot_every: u64) -> (Cluster, NodeId, NodeId) {
        let mut cluster = Cluster::form_new(3, snapshot_every).await;
        let leader = cluster.leader_among(1..=3).await;
        let away = cluster.others(leader)[0];
        cluster.stop(away).await;
        (cluster, leader, away)
    }

    async fn stop(&mut self, id: NodeId) {
        self.net.unplug(id);
        self.nodes.remove(&id).unwrap().shutdown().await;
    }

    fn node(&self, id: NodeId) -> &Replica<TokioRuntime> {
        &self.nodes[&id]
    }

    /// Waits until one of the given nodes leads.
    async fn leader_among(&self, ids: impl IntoIterator<Item = NodeId>) -> NodeId {
        let lead = ids.into_iter().map(|id| {
            let node = self.node(id);
            async move {
                while node.leadership().is_none() {
                    node.leadership_change(None).await;
                }
                id
            }
            .boxed()
        });
        futures_util::future::select_all(lead).await.0
    }

    fn others(&self, id: NodeId) -> Vec<NodeId> {
        (1..=self.size).filter(|other| *other != id).collect()
    }

    async fn open_session(&self, at: NodeId) -> Result<Answer, ProposeError> {
        self.node(at).propose(open_session(), soon()).await
    }
}

/// A command that changes the state each time.
fn open_session() -> Command {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let id = SessionId(u128::from(NEXT.fetch_add(1, Ordering::Relaxed)));
    Command::OpenSession(OpenSession {
        key: None,
        id,
        timeout_ms: 10_000,
        name: String::new(),
        meta: Meta::new(),
        at: WallMillis(0),
    })
}

fn opened(answer: &Answer) -> Revision {
    assert!(matches!(answer.result, Ok(Outcome::SessionOpened { .. })), "{answer:?}");
    answer.revision
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_node_forms_a_cluster_at_once_and_survives_a_restart() {
    let mut cluster = Cluster::form(1, 1_000).await;
    let revision = opened(&cluster.open_session(1).await.unwrap());
    let id = cluster.node(1).state().cluster();
    assert!(id.is_some(), "the cluster's name must be its first change");
    cluster.stop(1).await;

    cluster.start(1).await;
    cluster.node(1).read_barrier(soon()).await.unwrap();
    assert_eq!(cluster.node(1).read(State::revision), revision);
    assert_eq!(cluster.node(1).state().cluster(), id);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_followers_proposal_is_applied_everywhere_and_survives_the_leader() {
    let mut cluster = Cluster::form(3, 1_000).await;
    let leader = cluster.leader_among(1..=3).await;
    let followers = cluster.others(leader);

    let revision = opened(&cluster.open_session(followers[0]).await.unwrap());
    for node in cluster.nodes.values() {
        node.read_barrier(soon()).await.unwrap();
        assert!(node.read(State::revision) >= revision, "a barrier that starts after the answer must show the change");
        node.wait_for_revision(revision, soon()).await.unwrap();
    }

    cluster.stop(leader).await;
    let next = cluster.leader_among(followers.clone()).await;
    assert_ne!(next, leader);
    let later = opened(&cluster.open_session(followers[0]).await.unwrap());
    assert!(later > revision);

    cluster.start(leader).await;
    cluster.node(leader).wait_for_revision(later, soon()).await.unwrap();
    cluster.node(leader).read_barrier(soon()).await.unwrap();
    let states = cluster.nodes.values().map(|node| (node.read(State::revision), node.state().cluster()));
    assert_eq!(states.collect::<std::collections::BTreeSet<_>>().len(), 1, "all nodes must have the same state");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_reports_the_same_events_at_the_same_revisions() {
    let cluster = Cluster::form(3, 1_000).await;
    let answers = join_all((0..60).map(|number| cluster.open_session(number % 3 + 1))).await;
    let last = answers.iter().map(|answer| opened(answer.as_ref().unwrap())).max().unwrap();
    for node in cluster.nodes.values() {
        node.wait_for_revision(last, soon()).await.unwrap();
    }
    let events: Vec<_> = cluster.recorders.values().map(|recorder| recorder.events.lock().unwrap().clone()).collect();
    assert_eq!(events[0].len(), 60);
    assert!(events[0] == events[1] && events[1] == events[2]);
}

/// The simulator checks the state after every change, so it must learn of changes without events too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_without_events_is_reported_and_a_command_without_a_change_is_not() {
    let cluster = Cluster::form(1, 1_000).await;
    let reports = |revision| cluster.recorders[&1].changes.lock().unwrap().iter().filter(|change| **change == revision).count();
    let release = Command::Release { grant: GrantId::from_ulid(7), session: None, at: WallMillis(0) };
    let events_before = cluster.recorders[&1].events.lock().unwrap().len();
    let remembered = cluster.node(1).propose(release, soon()).await.unwrap().revision;
    assert_eq!((reports(remembered), cluster.recorders[&1].events.lock().unwrap().len()), (1, events_before));
    let abandon = Command::Abandon { grant: GrantId::from_ulid(8), attempt: 1, at: WallMillis(0) };
    let nothing = cluster.node(1).propose(abandon, soon()).await.unwrap().revision;
    assert_eq!((nothing, reports(remembered)), (remembered, 1), "there was nothing to abandon");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_commands_share_an_entry_and_each_has_its_own_answer() {
    let cluster = Cluster::form(3, 100_000).await;
    let leader = cluster.leader_among(1..=3).await;
    let follower = cluster.others(leader)[0];
    cluster.open_session(leader).await.unwrap();
    let before = cluster.disks[&leader].log.entries();

    let commands: Vec<_> = (0..1_000).map(|_| open_session()).collect();
    let id = |command: &Command| if let Command::OpenSession(open) = command { open.id } else { panic!("{command:?}") };
    let wanted: Vec<_> = commands.iter().map(id).collect();
    let places = [leader, follower].into_iter().cycle();
    let answers = join_all(commands.into_iter().zip(places).map(|(command, at)| cluster.node(at).propose(command, soon()))).await;

    let mut revisions = Vec::new();
    for (answer, wanted) in answers.into_iter().zip(wanted) {
        let answer = answer.unwrap();
        revisions.push(opened(&answer));
        assert!(
            matches!(answer.result, Ok(Outcome::SessionOpened { id, .. }) if id == wanted),
            "it is the answer to another command"
        );
    }
    revisions.sort();
    revisions.dedup();
    assert_eq!(revisions.len(), 1_000, "each command must change the state");
    let entries = cluster.disks[&leader].log.entries() - before;
    assert!(entries < 200, "{entries} entries for 1,000 commands that arrived together");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_was_away_for_a_long_time_receives_a_snapshot() {
    let (mut cluster, leader, away) = Cluster::without_a_follower(20).await;
    let mut last = Revision(0);
    for _ in 0..100 {
        last = opened(&cluster.open_session(leader).await.unwrap());
    }
    cluster.disks[&leader].log.purged(40).await;

    cluster.start(away).await;
    cluster.node(away).wait_for_revision(last, soon()).await.unwrap();
    assert!(cluster.recorders[&away].replaced.load(Ordering::Relaxed) >= 2, "at the start, and with the snapshot");
    assert_eq!(cluster.node(away).read(State::session_count), cluster.node(leader).read(State::session_count));

    // The snapshot it received is on its disk too.
    cluster.stop(away).await;
    cluster.start(away).await;
    cluster.node(away).read_barrier(soon()).await.unwrap();
    assert_eq!(cluster.node(away).read(State::session_count), cluster.node(leader).read(State::session_count));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_proves_nothing_and_acknowledges_nothing() {
    let cluster = Cluster::form(3, 1_000).await;
    let old = cluster.leader_among(1..=3).await;
    let leadership = cluster.node(old).leadership().unwrap();
    cluster.open_session(old).await.unwrap();
    cluster.net.isolate(old);

    let late = after(Duration::from_secs(1));
    let (read, write) = tokio::join!(cluster.node(old).read_barrier(late), cluster.node(old).propose(open_session(), late));
    assert_eq!(read, Err(ReadError::NotServed(NotProposed::NoLeader)));
    let appended = Err(ProposeError::Unknown(UnknownReason::Deadline));
    // If the lease had ended before the append, the command was definitely not proposed.
    assert!(write == appended || write == Err(ProposeError::NotProposed(NotProposed::NoLeader)), "{write:?}");

    let next = cluster.leader_among(cluster.others(old)).await;
    let revision = opened(&cluster.open_session(next).await.unwrap());

    cluster.net.heal(old);
    while cluster.node(old).leadership() == Some(leadership) {
        cluster.node(old).leadership_change(Some(leadership)).await;
    }
    cluster.node(old).wait_for_revision(revision, soon()).await.unwrap();
    let late = cluster.node(old).propose_alone(open_session(), leadership).await;
    assert_eq!(
        late,
        Err(ProposeError::NotProposed(NotProposed::Deposed)),
        "a verdict of an old leadership must not enter the log"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_process_died_is_replaced_before_its_lease_ends() {
    for size in [3, 5] {
        let mut cluster = Cluster::patient(size).await;
        let old = cluster.leader_among(1..=size).await;
        let revision = opened(&cluster.open_session(old).await.unwrap());
        cluster.stop(old).await;

        let next = cluster.leader_among(cluster.others(old)).await;
        assert!(opened(&cluster.open_session(next).await.unwrap()) > revision);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_false_alarm_about_a_dead_leader_deposes_no_leader() {
    let cluster = Cluster::patient(3).await;
    let leader = cluster.leader_among(1..=3).await;
    let leadership = cluster.node(leader).leadership();
    let alarmed = cluster.others(leader)[0];
    cluster.open_session(alarmed).await.unwrap();

    // It requests votes after each attempt but the last.
    cluster.net.reject(leader, alarmed);
    cluster.net.refusal_checks(8).await;
    cluster.open_session(alarmed).await.unwrap();
    assert_eq!(cluster.node(leader).leadership(), leadership);
}

/// Timeouts that a busy machine can keep, and short enough for a test to wait for.
const UNHURRIED: (u64, u64) = (500, 1_000);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_false_alarm_ends_when_the_leader_sends_again() {
    let cluster = Cluster::form_with(3, 1_000, Some(UNHURRIED)).await;
    let leader = cluster.leader_among(1..=3).await;
    let leadership = cluster.node(leader).leadership();
    let [alarmed, cut_off] = cluster.others(leader)[..] else { unreachable!("three nodes") };
    cluster.open_session(alarmed).await.unwrap();
    cluster.net.reject(leader, alarmed);
    cluster.net.refusal_checks(8).await;
    cluster.open_session(alarmed).await.unwrap();

    // The cut-off node receives nothing from the leader, and requests the other node's vote.
    cluster.net.disconnect(leader, cut_off);
    let vote_requests = (cut_off, alarmed, Lane::Heartbeat);
    let before = cluster.net.answered_so_far(vote_requests);
    cluster.net.answers(vote_requests, before + 2).await;
    cluster.open_session(alarmed).await.unwrap();
    let status = cluster.node(alarmed).status();
    assert_eq!((status.leader, status.term), (Some(leader), leadership.unwrap().term()), "no other node may be elected");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_measures_its_heartbeats_including_dropped_ones() {
    let cluster = Cluster::patient(3).await;
    let leader = cluster.leader_among(1..=3).await;
    let short = Duration::from_millis(30);
    let long = Duration::from_millis(200);
    let round_trip = || {
        let others = cluster.node(leader).status().members.into_iter().filter(|member| member.id != leader);
        others.map(|member| member.round_trip).min().flatten()
    };
    for delay in [short, long] {
        cluster.net.slow_heartbeats(delay);
        let path = (leader, cluster.others(leader)[0], Lane::Heartbeat);
        cluster.net.answers(path, cluster.net.answered_so_far(path) + 60).await;
        // The heartbeat interval is 50 ms, and openraft waits no longer.
        let at_least = delay.min(Duration::from_millis(45));
        assert!(round_trip().is_some_and(|mean| mean >= at_least), "{delay:?}: {:?}", round_trip());
    }
    assert!(cluster.node(cluster.others(leader)[0]).status().members.iter().all(|member| member.round_trip.is_none()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verdict_is_proposed_only_under_the_leadership_that_made_it() {
    let cluster = Cluster::form(3, 1_000).await;
    let leader = cluster.leader_among(1..=3).await;
    let leadership = cluster.node(leader).leadership().unwrap();
    let answer = loop {
        match cluster.node(leader).propose_alone(open_session(), leadership).await {
            // Just elected: a barrier passes once a majority has answered it.
            Err(ProposeError::NotProposed(NotProposed::NoLeader)) => cluster.node(leader).read_barrier(soon()).await.unwrap(),
            outcome => break outcome.unwrap(),
        }
    };
    opened(&answer);
    let follower = cluster.others(leader)[0];
    let elsewhere = cluster.node(follower).propose_alone(open_session(), leadership).await;
    assert_eq!(elsewhere, Err(ProposeError::NotProposed(NotProposed::Deposed)), "it is never forwarded");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wiped_node_is_refused_and_takes_no_part() {
    let mut cluster = Cluster::form(3, 1_000).await;
    let leader = cluster.leader_among(1..=3).await;
    let wiped = cluster.others(leader)[0];
    let revision = opened(&cluster.open_session(leader).await.unwrap());
    cluster.stop(wiped).await;
    let expected = cluster.disks.insert(wiped, Disk::new(999)).unwrap().incarnation;

    cluster.start(wiped).await;
    let error = FormationError::Wiped { id: wiped, expected, found: Incarnation(999) };
    assert_eq!(cluster.node(wiped).stopped().await, FatalReason::Formation(error.clone()));
    assert_eq!(cluster.node(wiped).formed().await, Err(error));
    assert_eq!(cluster.node(wiped).status().last_log_index, None, "it must receive nothing");

    assert!(opened(&cluster.open_session(leader).await.unwrap()) > revision, "the other nodes must continue");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_cluster_forms_before_every_member_has_started() {
    let mut cluster = Cluster {
        net: Net::new(),
        size: 3,
        disks: (1..=3).map(|id| (id, Disk::new(u128::from(id)))).collect(),
        nodes: BTreeMap::new(),
        recorders: BTreeMap::new(),
        snapshot_every: 1_000,
        tune: |_| (),
        election_timeout_ms: None,
        joined: BTreeMap::new(),
    };
    cluster.start(1).await;
    cluster.start(2).await;
    let early = cluster.node(1).propose(open_session(), after(Duration::from_millis(600))).await;
    assert_eq!(early, Err(ProposeError::NotProposed(NotProposed::NoLeader)));
    assert!(cluster.node(1).status().members.is_empty() && cluster.node(2).status().members.is_empty());

    cluster.start(3).await;
    for node in cluster.nodes.values() {
        node.formed().await.unwrap();
    }
    opened(&cluster.open_session(2).await.unwrap());
    let incarnations: Vec<_> = cluster.node(3).status().members.iter().map(|member| member.member.incarnation.0).collect();
    assert_eq!(incarnations, [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_hands_over_before_it_stops() {
    let cluster = Cluster::form(3, 1_000).await;
    let leader = cluster.leader_among(1..=3).await;
    cluster.open_session(leader).await.unwrap();
    let leadership = cluster.node(leader).leadership();
    cluster.node(leader).transfer_leadership().await;
    assert_ne!(cluster.node(leader).leadership(), leadership);
    let next = cluster.leader_among(cluster.others(leader)).await;
    let status = cluster.node(next).status();
    assert_eq!((status.role, status.leader), (Role::Leader, Some(next)));
    opened(&cluster.open_session(leader).await.unwrap());
}

/// The new leader has the key in its log, but may not have applied it when the request is repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_handover_request_finds_its_key_at_the_new_leader() {
    let cluster = Cluster::form(3, 1_000).await;
    cluster.open_session(1).await.unwrap();
    for turn in 1..=12_u8 {
        let leader = cluster.leader_among(1..=3).await;
        let to = leader % 3 + 1;
        let key = WriteKey { key: GrantId::from_ulid(u128::from(turn)), fingerprint: [turn; 16] };
        // A new leader may not have an answer from every node yet.
        while cluster.node(leader).hand_over(to, Some(key), None, soon()).await.is_err() {
            cluster.open_session(leader).await.unwrap();
        }
        assert_eq!(cluster.node(leader).status().leader, Some(to), "turn {turn}");
        cluster.leader_among([to]).await;
        assert_eq!(cluster.node(to).hand_over(to, Some(key), None, soon()).await, Ok(()), "turn {turn}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_not_a_member_is_refused_before_its_first_request() {
    let cluster = Cluster::form(3, 1_000).await;
    opened(&cluster.open_session(1).await.unwrap());
    let ours = cluster.node(1).state().cluster();
    let service = cluster.node(1).service();
    let other = |id, incarnation, cluster| {
        let incarnation = Incarnation(incarnation);
        let introduction = Introduction {
            id,
            cluster,
            incarnation,
            empty: false,
            members: Vec::new(),
            program: None,
            supports: SupportedVersions::OWN,
            boot: 1,
        };
        service.admit(&introduction, ConnectionSide::Dialled)
    };

    assert_eq!(other(2, 200, ours), Ok(()));
    assert_eq!(other(2, 200, None), Ok(()), "it may not know the cluster's name yet");
    let id = 2;
    let expected = Incarnation(200);
    let found = Incarnation(7);
    assert_eq!(other(2, 7, None), Err(Refusal::Incarnation { id, expected, found }));
    assert_eq!(other(9, 900, None), Err(Refusal::NotAMember { id: 9 }));
    assert_eq!(other(9, 900, ours), Ok(()), "it belongs to this cluster, and may have joined a moment ago");
    let theirs = ClusterId(ours.unwrap().0 ^ 1);
    assert_eq!(other(2, 200, Some(theirs)), Err(Refusal::Cluster { theirs, ours: ours.unwrap() }));

    let config = ReplicaConfig::new(4, BTreeMap::new(), Incarnation(4));
    let starting = PeerService::<TokioRuntime>::new(&config).service();
    assert_eq!(starting.admit(&service.introduction(), ConnectionSide::Accepted), Err(Refusal::Starting));
    assert!(!starting.introduction().empty, "a starting node must not let a cluster form");
}

/// Answers with its own id, the sender and the message.
struct EchoHandler(NodeId);

impl LeaderHandler for EchoHandler {
    fn handle(&self, request: Vec<u8>, from: NodeId) -> BoxFuture<'static, Vec<u8>> {
        let answer = format!("{} received {} from {from}", self.0, String::from_utf8(request).unwrap());
        async move { answer.into_bytes() }.boxed()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_reaches_the_leader() {
    let mut cluster = Cluster::form(3, 1_000).await;
    for (id, node) in &cluster.nodes {
        assert!(node.set_leader_handler(Arc::new(EchoHandler(*id))));
    }
    let leader = cluster.leader_among(1..=3).await;
    let followers = cluster.others(leader);
    for from in 1..=3 {
        let answer = cluster.node(from).call_leader(b"hello".to_vec(), soon()).await.unwrap();
        assert_eq!(String::from_utf8(answer).unwrap(), format!("{leader} received hello from {from}"));
    }

    cluster.stop(leader).await;
    let answer = cluster.node(followers[0]).call_leader(b"again".to_vec(), soon()).await.unwrap();
    let next = cluster.leader_among(followers.clone()).await;
    assert_eq!(String::from_utf8(answer).unwrap(), format!("{next} received again from {}", followers[0]));
}

impl MemberHandler for EchoHandler {
    fn handle(&self, request: &[u8], from: NodeId) -> Vec<u8> {
        format!("{} received {} from {from}", self.0, String::from_utf8(request.to_vec()).unwrap()).into_bytes()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_reaches_every_member_that_runs() {
    let mut cluster = Cluster::form(3, 1_000).await;
    for (id, node) in &cluster.nodes {
        assert!(node.set_member_handler(Arc::new(EchoHandler(*id))));
        // Then it knows the members.
        while node.leader().is_none() {
            tokio::task::yield_now().await;
        }
    }
    for (from, to) in [(1, 2), (1, 3), (2, 3), (3, 1)] {
        let answer = cluster.node(from).call_member(to, b"hello".to_vec(), soon()).await.unwrap();
        assert_eq!(String::from_utf8(answer).unwrap(), format!("{to} received hello from {from}"));
    }
    cluster.stop(3).await;
    assert_eq!(cluster.node(1).call_member(3, b"again".to_vec(), soon()).await, None);
    assert_eq!(cluster.node(1).call_member(9, b"hello".to_vec(), soon()).await, None, "it is no member");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_shutdown_every_request_is_refused_at_once() {
    let cluster = Cluster::form(1, 1_000).await;
    let node = cluster.node(1);
    cluster.open_session(1).await.unwrap();
    node.shutdown().await;
    assert_eq!(node.stopped().await, FatalReason::Stopped);
    assert_eq!(node.propose(open_session(), soon()).await, Err(ProposeError::NotProposed(NotProposed::ShuttingDown)));
    assert_eq!(node.read_barrier(soon()).await, Err(ReadError::NotServed(NotProposed::ShuttingDown)));
    assert_eq!(node.leadership(), None);
}
