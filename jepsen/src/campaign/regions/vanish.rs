//! The machine of the leader vanishes: the switch delivers nothing to it or from it any more. How long is no write
//! acknowledged?

use super::{
    clients::{LostSession, RegionClient},
    leaders::LeaderPoll,
    map::{LEARNER, Profile, VOTERS},
    stalls::Stalls,
};
use crate::{
    cluster::{ChaosCluster, leader_of},
    history::Outcome,
    http::Request,
    net::{CLIENTS, Link, Network, Overlay},
    new_key,
};
use std::{
    collections::BTreeMap,
    fmt::{self, Write},
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

/// A write is sent to every remaining voter this often, whether or not earlier ones were answered.
const PROBE_EVERY: Duration = Duration::from_millis(100);
/// The time limit of such a write.
const PROBE_WORK: Duration = Duration::from_secs(3);
/// The probes give up after this many times the longest time that is allowed.
const PATIENCE: u32 = 3;
const LEADER_WITHIN: Duration = Duration::from_secs(60);
const POLL_EVERY: Duration = Duration::from_millis(100);

/// What followed when the machine of a leader vanished.
#[derive(Debug, Clone)]
pub(super) struct Vanishing {
    profile: Profile,
    pub(super) led: usize,
    /// The next leader, and whether it was still the leader some time after the machine had returned.
    next: usize,
    pub(super) is_stable: bool,
    /// After how long another node led, as far as a poll saw it.
    elected: Option<Duration>,
    /// When the first write that was sent afterwards was acknowledged at each remaining voter.
    acknowledged: BTreeMap<usize, Duration>,
    /// By how much the term grew.
    terms: u64,
    /// The sessions of clients in other regions that ended.
    pub(super) lost: Vec<LostSession>,
    /// For how long this machine stalled during the gap.
    pub(super) stalled: Duration,
    /// For how long it stalled after that.
    pub(super) stalled_later: Duration,
}

/// Cuts the leader off until every remaining voter has acknowledged a write, and waits until the cluster is whole again.
pub(super) async fn vanish(
    client: &RegionClient,
    cluster: &mut ChaosCluster,
    network: &Network,
    stalls: &Stalls,
) -> Result<Vanishing, String> {
    let (led, term) = leader(cluster).await?;
    let others: Vec<usize> = (1..=VOTERS).filter(|voter| *voter != led).collect();
    let reached: Vec<usize> = std::iter::once(CLIENTS).chain(1..=LEARNER).collect();
    let cut = Instant::now();
    let overlay = network.switch.lay(Overlay::both_ways(&[led], &reached, Link::CUT));
    cluster.http.set_serving(others.clone());
    let poll = LeaderPoll::start(cluster.http.clone(), POLL_EVERY);
    let acknowledged = probe(client, &others, cut).await;
    let next = leader(cluster).await;
    let elected = poll.seen().into_iter().find(|seen| seen.term > term).map(|seen| seen.at - cut);
    drop(poll);
    let lifted = Instant::now();
    network.switch.lift(overlay);
    cluster.http.set_serving(cluster.machines());
    let (acknowledged, (next, _)) = (acknowledged?, next?);
    cluster.come_to_rest().await?;
    // A node whose return causes an election does so within two leases. The next leader must not vanish before it has
    // lasted: that would delay the next election.
    let lasts_at = lifted + client.profile.settles_within();
    let pause = lasts_at.saturating_duration_since(Instant::now()).max(client.profile.lease() * 2);
    tokio::time::sleep(pause).await;
    let (last, last_term) = leader(cluster).await?;
    let gap = acknowledged.values().min().copied().unwrap_or_else(|| lifted - cut);
    let is_elsewhere = |lost: &&LostSession| lost.machine != led && lost.at >= cut;
    Ok(Vanishing {
        profile: client.profile,
        led,
        next,
        is_stable: last == next,
        elected,
        acknowledged,
        terms: last_term.saturating_sub(term),
        lost: client.lost.lock().iter().filter(is_elsewhere).cloned().collect(),
        stalled: stalls.between(cut, cut + gap),
        stalled_later: stalls.between(lifted, Instant::now()),
    })
}

async fn leader(cluster: &ChaosCluster) -> Result<(usize, u64), String> {
    let started = Instant::now();
    loop {
        if let Some(seen) = leader_of(&cluster.http).await {
            return Ok(seen);
        }
        if started.elapsed() > LEADER_WITHIN {
            return Err(format!("there is no leader after {LEADER_WITHIN:?}"));
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}

/// Sends writes to all of these voters until each has acknowledged one. Returns after how long each did.
async fn probe(client: &RegionClient, voters: &[usize], cut: Instant) -> Result<BTreeMap<usize, Duration>, String> {
    let mut acknowledged = BTreeMap::new();
    let mut probes = JoinSet::new();
    let mut tick = tokio::time::interval(PROBE_EVERY);
    while acknowledged.len() < voters.len() && cut.elapsed() < client.profile.gap_max() * PATIENCE {
        tokio::select! {
            _ = tick.tick() => {
                for voter in voters.iter().filter(|voter| !acknowledged.contains_key(*voter)) {
                    probes.spawn(write(client.clone(), *voter));
                }
            }
            Some(written) = probes.join_next() => {
                if let Some((voter, at)) = written.map_err(|error| error.to_string())? {
                    acknowledged.entry(voter).or_insert(at - cut);
                }
            }
        }
    }
    Ok(acknowledged)
}

async fn write(client: RegionClient, voter: usize) -> Option<(usize, Instant)> {
    let write = Request::put(format!("/v1/nodes/regions/probe-{voter}?parents"), &new_key(), new_key());
    let reply = client.http.ask(voter, &write.within(PROBE_WORK, Duration::ZERO)).await;
    (reply.outcome == Outcome::Ok).then(|| (voter, Instant::now()))
}

impl Vanishing {
    /// The time without an acknowledged write; `None` if none was acknowledged again.
    pub(super) fn gap(&self) -> Option<Duration> {
        self.acknowledged.values().min().copied()
    }

    /// The time until every remaining voter had acknowledged a write; `None` if one did not.
    pub(super) fn gap_everywhere(&self) -> Option<Duration> {
        let all = self.acknowledged.len() == VOTERS - 1;
        self.acknowledged.values().max().copied().filter(|_| all)
    }

    /// The head of the table.
    pub(super) fn write_head(out: &mut String) -> fmt::Result {
        writeln!(
            out,
            "| vanished | next leader | elected after | first write after | in every region after | elections | sessions lost \
             elsewhere | machine stalled |\n|---|---|---|---|---|---|---|---|"
        )
    }

    /// The row of the table.
    pub(super) fn write(&self, out: &mut String) -> fmt::Result {
        let region = |machine| self.profile.region(machine);
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {:.2} s |",
            region(self.led),
            region(self.next),
            seconds(self.elected),
            seconds(self.gap()),
            seconds(self.gap_everywhere()),
            self.terms,
            self.lost.len(),
            self.stalled.as_secs_f64(),
        )
    }
}

/// A time in seconds, as text.
pub(super) fn seconds(time: Option<Duration>) -> String {
    time.map_or("never".to_owned(), |time| format!("{:.2} s", time.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gap_ends_with_the_first_write_and_every_region_with_the_last_one() {
        let ms = Duration::from_millis;
        let mut vanishing = Vanishing {
            profile: Profile::Metro,
            led: 1,
            next: 2,
            is_stable: true,
            elected: None,
            acknowledged: [(2, ms(900)), (3, ms(700)), (4, ms(1_200))].into(),
            terms: 1,
            lost: Vec::new(),
            stalled: Duration::ZERO,
            stalled_later: Duration::ZERO,
        };
        assert_eq!((vanishing.gap(), vanishing.gap_everywhere()), (Some(ms(700)), None));
        vanishing.acknowledged.insert(5, ms(1_100));
        assert_eq!(vanishing.gap_everywhere(), Some(ms(1_200)));
    }
}
