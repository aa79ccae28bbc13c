//! Five regions as far from each other as a timing profile allows: no election while nothing goes wrong, how long calls
//! take, and how long no write is acknowledged when the machine of the leader vanishes.

mod clients;
mod figures;
mod leaders;
mod map;
mod stalls;
mod vanish;

pub(crate) use map::Profile;

use super::{Ended, Setting, sum::Sum};
use crate::{
    cluster::{self, ChaosCluster, READY_WITHIN},
    http::Request,
    log_line,
    net::Network,
    new_key,
    run::NotRun,
};
use clients::RegionClient;
use figures::Figures;
use leaders::{Counters, LeaderPoll, SeenLeader, counters};
use map::{LEARNER, VOTERS};
use parking_lot::Mutex;
use serde_json::json;
use stalls::Stalls;
use std::{
    fmt::Write,
    fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};
use vanish::{Vanishing, seconds, vanish};

/// The machine of the leader while nothing goes wrong.
const FIRST_LEADER: usize = 1;
/// A call that fails while the machine stalls for this long proves nothing.
const STALL_FAILS_CALLS: Duration = Duration::from_secs(1);
const POLL_EVERY: Duration = Duration::from_millis(250);
/// One client at a time makes each call once for this many seconds of the part in which nothing goes wrong.
const SECONDS_PER_ROUND: u64 = 60;
const ROUNDS_MAX: u32 = 20;
/// How many failed calls are listed.
const FAILURES_SHOWN: usize = 5;

/// How long each part takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lengths {
    /// While nothing goes wrong.
    pub(super) quiet: Duration,
    /// How often the machine of the leader vanishes.
    pub(super) vanishings: usize,
}

/// One profile under trial.
struct Trial<'a> {
    profile: Profile,
    folder: PathBuf,
    network: Network,
    cluster: ChaosCluster,
    client: RegionClient,
    stalls: Stalls,
    sum: &'a mut Sum,
    text: &'a mut String,
}

pub(super) fn run(setting: &Setting, profiles: &[Profile], lengths: Lengths) -> Result<Ended, NotRun> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    let (mut sum, mut text) = (Sum::default(), String::new());
    for profile in profiles {
        runtime.block_on(async {
            let mut trial = Trial::new(setting, *profile, &mut sum, &mut text)?;
            let done = trial.all(lengths).await;
            trial.cluster.end();
            if let Err(error) = fs::remove_dir_all(cluster::data_of(&trial.folder)) {
                log_line(&format!("{}: cannot remove the data: {error}", trial.folder.display()));
            }
            if let Err(why) = done {
                trial.sum.add_missing(format!("{}: {why}", profile.name()));
            }
            Ok::<_, NotRun>(())
        })?;
    }
    let names: Vec<&str> = profiles.iter().map(|profile| profile.name()).collect();
    let (quiet, vanishings) = (lengths.quiet.as_secs(), lengths.vanishings);
    let timing = names.join(",");
    let command =
        format!("fairhold-jepsen regions --timing {timing} --seconds {quiet} --vanishings {vanishings} --seed {}", setting.seed);
    Ok(sum.end(&command, &text))
}

impl<'a> Trial<'a> {
    fn new(setting: &Setting, profile: Profile, sum: &'a mut Sum, text: &'a mut String) -> Result<Trial<'a>, NotRun> {
        let folder = setting.folder.join(profile.name());
        for machine in 1..=LEARNER {
            let disk = cluster::disk_of(&folder, machine);
            fs::create_dir_all(&disk).map_err(|error| format!("{}: {error}", disk.display()))?;
        }
        let network = Network::create(LEARNER).map_err(NotRun::NotHere)?;
        network.switch.lay(profile.delays());
        let mut cluster = ChaosCluster::plan(&network, &setting.fairhold, &folder, VOTERS, false)?;
        cluster.timing = Some(profile.name());
        let (figures, lost) = (Arc::new(Figures::default()), Arc::new(Mutex::new(Vec::new())));
        let client = RegionClient { http: cluster.http.clone(), profile, figures, lost, machine: FIRST_LEADER };
        let stalls = Stalls::record().map_err(|error| format!("a thread: {error}"))?;
        Ok(Trial { profile, folder, network, cluster, client, stalls, sum, text })
    }

    async fn all(&mut self, lengths: Lengths) -> Result<(), String> {
        self.line(&format!("## {}: round trips of up to {:?}\n", self.profile.name(), self.profile.round_trip_max()));
        self.profile.write(self.text).map_err(|error| error.to_string())?;
        self.form().await?;
        let began = Instant::now();
        let sessions = self.client.start_sessions();
        self.quiet(lengths.quiet).await?;
        tokio::time::sleep(self.profile.settles_within().saturating_sub(began.elapsed())).await;
        self.vanishings(lengths.vanishings).await?;
        drop(sessions);
        let (stalls, longest) = self.stalls.since(began);
        self.line(&format!("\nThis machine stalled {stalls} times for at least 50 ms, at most for {longest:.0?}.\n"));
        Ok(())
    }

    fn line(&mut self, text: &str) {
        log_line(text);
        writeln!(self.text, "{text}").expect("writing to a String cannot fail");
    }

    /// Adds a fault of the product, unless the machine stalled for long enough to explain it.
    fn blame(&mut self, what: &str, stalled: Duration, enough: Duration) {
        let what = format!("{}: {what}", self.profile.name());
        log_line(&what);
        if stalled >= enough {
            self.sum.add_missing(format!("{what}; but the machine stalled for {stalled:.1?}"));
        } else {
            self.sum.add_violation(what);
        }
    }

    /// Forms the cluster with its learner, its zones and its first leader.
    async fn form(&mut self) -> Result<(), String> {
        self.cluster.start_all().await?;
        let token = Request::post("/v1/cluster/join-tokens", &new_key()).json(&json!({ "role": "learner" }));
        let created = self.cluster.ask_until_accepted(&token, READY_WITHIN).await?;
        let token = created.json["token"].as_str().ok_or_else(|| format!("no token: {}", created.text))?;
        self.cluster.will_join(LEARNER, token)?;
        self.cluster.start(LEARNER)?;
        self.cluster.ready(LEARNER, READY_WITHIN).await?;
        self.cluster.settled(READY_WITHIN).await?;
        self.cluster.has_joined(LEARNER);
        for machine in 1..=LEARNER {
            let id = self.cluster.member_id(machine).await.ok_or_else(|| format!("node {machine} does not answer"))?;
            let zone = self.profile.region(machine).to_lowercase().replace(' ', "-");
            let set = Request::patch(format!("/v1/cluster/members/{id}"), &new_key()).json(&json!({ "zone": zone }));
            self.cluster.ask_until_accepted(&set, READY_WITHIN).await?;
        }
        let timing = self.cluster.ask_until_accepted(&Request::get("/v1/cluster/settings"), READY_WITHIN).await?;
        if timing.json["timing"] != self.profile.name() {
            return Err(format!("the cluster has another timing profile: {}", timing.text));
        }
        if self.cluster.leader().await != Some(FIRST_LEADER) {
            let transfer = Request::post("/v1/cluster/leader", &new_key()).json(&json!({ "to": FIRST_LEADER }));
            self.cluster.ask_until_accepted(&transfer, READY_WITHIN).await?;
        }
        self.cluster.come_to_rest().await?;
        Ok(())
    }

    /// Clients work, and nothing goes wrong: first one after the other, then all of them.
    async fn quiet(&mut self, length: Duration) -> Result<(), String> {
        let http = self.cluster.http.clone();
        let before = counters(&http).await?;
        let poll = LeaderPoll::start(http.clone(), POLL_EVERY);
        let began = Instant::now();
        let alone = RegionClient { figures: Arc::new(Figures::default()), ..self.client.clone() };
        let rounds = u32::try_from(length.as_secs() / SECONDS_PER_ROUND).unwrap_or(u32::MAX).clamp(1, ROUNDS_MAX);
        alone.figures.open();
        alone.call_one_by_one(FIRST_LEADER, rounds).await;
        self.client.figures.open();
        let load = self.client.start_load(FIRST_LEADER);
        tokio::time::sleep(length).await;
        self.client.figures.close();
        drop(load);
        let seen = poll.seen();
        let after = counters(&http).await?;
        self.judge_elections(&before, &after, &seen, began);
        self.judge_calls(&alone.figures);
        let title = format!("one client at a time, {rounds} times: median / longest in ms, in");
        alone.figures.write(&title, self.profile, FIRST_LEADER, self.text).map_err(|error| error.to_string())?;
        self.line("");
        let title = "clients in all regions at once: p50 / p99 in ms, in";
        self.client.figures.write(title, self.profile, FIRST_LEADER, self.text).map_err(|error| error.to_string())?;
        let timing = http.ask(FIRST_LEADER, &Request::get("/v1/cluster/timing")).await;
        let members = timing.json["members"].as_array().into_iter().flatten().filter_map(|member| {
            let machine = usize::try_from(member["id"].as_u64()?).ok()?;
            Some(format!("{} {}", self.profile.region(machine.min(LEARNER)), member["round_trip_p99"].as_str()?))
        });
        let members: Vec<String> = members.collect();
        self.line(&format!("\n`fairhold cluster timing` shows these round trips, p99: {}.", members.join(", ")));
        Ok(())
    }

    fn judge_elections(&mut self, before: &[Counters], after: &[Counters], seen: &[SeenLeader], began: Instant) {
        let (calls, took) = (self.client.figures.count(), began.elapsed().as_secs());
        let commit = self.profile.commit(FIRST_LEADER);
        let is_first = seen.first().is_some_and(|first| first.machine == FIRST_LEADER);
        if before == after && seen.len() == 1 && is_first {
            let term = after.first().map_or(0, |counters| counters.term());
            let failed = self.client.figures.failures().len();
            return self.line(&format!(
                "\n{took} s without a fault: no election, term {term} throughout; {calls} calls succeeded, {failed} failed. \
                 From the leader to the nearest majority and back: {commit:?}.\n"
            ));
        }
        let lease = self.profile.lease();
        self.line(&format!("\n{took} s without a fault: ELECTIONS; {calls} calls succeeded.\n"));
        for next in seen.iter().skip(usize::from(is_first)) {
            let (region, at) = (self.profile.region(next.machine), next.at - began);
            let what = format!("{region} led in term {} after {:.1} s without a fault", next.term, at.as_secs_f64());
            let stalled = self.stalls.between(next.at.checked_sub(lease * 2).unwrap_or(began), next.at);
            self.blame(&what, stalled, lease);
        }
        if seen.len() == 1 || !is_first {
            // The poll missed it, so its time is unknown.
            self.blame(&format!("elections without a fault: {before:?}, {after:?}"), Duration::ZERO, lease);
        }
    }

    /// Calls that failed, and sessions that ended, although nothing went wrong.
    fn judge_calls(&mut self, alone: &Figures) {
        let failures = [alone.failures(), self.client.figures.failures()].concat();
        for failure in failures.iter().take(FAILURES_SHOWN) {
            let stalled = self.stalls.between(failure.sent, failure.answered);
            self.blame(&failure.what, stalled, STALL_FAILS_CALLS);
        }
        let lost = self.client.lost.lock().clone();
        for session in lost {
            let region = self.profile.region(session.machine);
            let what = format!("a session in {region} ended {:.1?} after its last keepalive", session.unrenewed);
            let stalled = self.stalls.between(session.at - session.unrenewed, session.at);
            self.blame(&what, stalled, self.profile.ttl() / 2);
        }
        for what in self.client.figures.missing(self.profile) {
            self.sum.add_missing(format!("{}: {what} was measured", self.profile.name()));
        }
    }

    /// The machine of the leader vanishes, again and again.
    async fn vanishings(&mut self, times: usize) -> Result<(), String> {
        let (gap_max, mut all) = (self.profile.gap_max(), Vec::<Vanishing>::new());
        for time in 1..=times {
            let seen = match vanish(&self.client, &mut self.cluster, &self.network, &self.stalls).await {
                Ok(seen) => seen,
                Err(why) => {
                    self.blame(&why, Duration::ZERO, gap_max);
                    break;
                }
            };
            log_line(&format!("{time} of {times}: first write after {}", seconds(seen.gap())));
            self.judge_vanishing(&seen);
            all.push(seen);
        }
        if all.is_empty() {
            return Ok(());
        }
        let gaps: Option<Vec<Duration>> = all.iter().map(Vanishing::gap).collect();
        let longest = gaps.and_then(|gaps| gaps.into_iter().max());
        self.line("\nThe machine of the leader vanishes, and comes back later:\n");
        Vanishing::write_head(self.text).map_err(|error| error.to_string())?;
        for seen in &all {
            seen.write(self.text).map_err(|error| error.to_string())?;
        }
        self.line(&format!("\nThe longest time without an acknowledged write: {}; at most {gap_max:?}.", seconds(longest)));
        Ok(())
    }

    fn judge_vanishing(&mut self, seen: &Vanishing) {
        let (region, gap_max, ttl) = (self.profile.region(seen.led), self.profile.gap_max(), self.profile.ttl());
        match seen.gap() {
            None => self.blame(&format!("{region} vanished, and no write succeeded again"), seen.stalled, gap_max),
            Some(gap) if gap > gap_max => {
                let what = format!("{region} vanished, and no write succeeded for {gap:.2?}: at most {gap_max:?}");
                self.blame(&what, seen.stalled, gap - gap_max);
            }
            Some(_) => {}
        }
        if !seen.is_stable {
            let what = format!("the return of {region} caused an election");
            self.blame(&what, seen.stalled_later, self.profile.lease());
        }
        for lost in seen.lost.iter().filter(|lost| lost.unrenewed < ttl) {
            let (there, after) = (self.profile.region(lost.machine), lost.unrenewed);
            self.blame(&format!("a session in {there} ended early, {after:.1?} after a keepalive"), Duration::ZERO, gap_max);
        }
    }
}
