//! The rule of each alarm: a pure function of what a node sees. An alarm that is raised has another threshold than one
//! that is not, so that it does not flap.

use crate::{
    alarms::{
        name::{AlarmName, silence_max},
        readings::{ClusterReading, MachineReading, MemberReading, SyncReading},
    },
    cluster_probe::majority,
    divergence::{Divergence, describe},
    round_trips::longest,
    text::{RENEW, joined, size, unanswered},
};
use fairhold_types::{
    NodeId, Timing,
    dto::{AlarmSeverity, CertificateUrgency},
    duration::rounded,
};
use std::time::Duration;

/// With fewer free bytes a disk is filling up, unless it has `DISK_LOW_PERCENT`.
const DISK_LOW: u64 = 2 << 30;
const DISK_LOW_PERCENT: u64 = 10;
/// With fewer free bytes, however small the disk is, a node counts as one without space: while fewer than a majority have
/// space, the cluster refuses writes.
const DISK_FULL: u64 = 256 << 20;
/// The alarm is gone with this many times as much.
const DISK_GONE_TIMES: u64 = 2;
/// Slow syncs in a minute. Fewer say nothing about the disk.
const SLOW_SYNCS_MIN: u64 = 5;
/// The percentage of slow syncs from which on the disk is slow.
const SLOW_SYNCS_PERCENT: u64 = 1;
/// The percentages of the memory limit at which the alarm is raised and gone.
const MEMORY_PERCENT: (u64, u64) = (85, 80);
/// The same of the budget of the state.
const STATE_PERCENT: (u64, u64) = (90, 85);
/// How many entries a member is behind when the alarm is raised, and when it is gone.
const LAG: (u64, u64) = (10_000, 1_000);
/// After this many intervals of the schedule, the newest backup is too old.
const BACKUP_INTERVALS_MAX: u32 = 2;

/// What a rule objects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Objection {
    pub(crate) severity: AlarmSeverity,
    pub(crate) seen: String,
    pub(crate) advice: String,
}

/// What the rules see: the look itself, and what earlier looks add to it.
#[derive(Debug)]
pub(crate) struct RuleInput<'a> {
    pub(crate) machine: &'a MachineReading,
    pub(crate) cluster: &'a ClusterReading,
    /// The syncs of the last minute.
    pub(crate) syncs: Option<SyncReading>,
    /// The joins that make no progress.
    pub(crate) stuck: Vec<NodeId>,
    /// Whether the audit log has lost entries lately.
    pub(crate) has_lost_audit: bool,
    /// How long this node has led.
    pub(crate) led_for: Duration,
}

/// What the rule of an alarm objects to, if it is raised already or not.
pub(crate) fn judge(name: AlarmName, input: &RuleInput<'_>, raised: bool) -> Option<Objection> {
    match name {
        AlarmName::Disk => disk(input, raised),
        AlarmName::DiskSlow => disk_slow(input),
        AlarmName::Memory => memory(input, raised),
        AlarmName::State => state(input, raised),
        AlarmName::MajorityAtRisk => majority_at_risk(input),
        AlarmName::NoQuorum => no_quorum(input),
        AlarmName::MemberBehind => member_behind(input, raised),
        AlarmName::Divergence => divergence(input.cluster),
        AlarmName::JoinStuck => join_stuck(input),
        AlarmName::Timing => timing(input),
        AlarmName::MembersDiffer => members_differ(input),
        AlarmName::UpgradeOpen => upgrade_open(input),
        AlarmName::BackupOld => backup_old(input),
        AlarmName::Certificate => certificate(input),
        AlarmName::Audit => audit(input),
    }
}

fn warning(seen: impl Into<String>, advice: impl Into<String>) -> Option<Objection> {
    Some(Objection { severity: AlarmSeverity::Warning, seen: seen.into(), advice: advice.into() })
}

fn critical(seen: impl Into<String>, advice: impl Into<String>) -> Option<Objection> {
    Some(Objection { severity: AlarmSeverity::Critical, seen: seen.into(), advice: advice.into() })
}

/// A part of a whole, in per cent.
fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100).checked_div(whole).unwrap_or(0)
}

fn threshold<T>((raise, gone): (T, T), raised: bool) -> T {
    if raised { gone } else { raise }
}

fn disk(input: &RuleInput<'_>, raised: bool) -> Option<Objection> {
    let disk = input.machine.disk?;
    let free = disk.free_bytes;
    let share = percent(free, disk.total_bytes);
    let times = threshold((1, DISK_GONE_TIMES), raised);
    let has_share = free >= DISK_LOW * times || share >= DISK_LOW_PERCENT * times;
    if has_share && free >= DISK_FULL * times {
        return None;
    }
    let seen = format!("{} are free for its data, {share} % of the disk", size(free));
    if free < DISK_FULL {
        return critical(
            seen,
            "free space on the disk of its data directory: while fewer than a majority of the nodes have 256 MiB free, the \
             cluster refuses writes, and a node that cannot write stops",
        );
    }
    warning(seen, "free space on the disk of its data directory: a node that cannot write stops")
}

fn disk_slow(input: &RuleInput<'_>) -> Option<Objection> {
    let SyncReading { all, slow, bound } = input.syncs?;
    if slow < SLOW_SYNCS_MIN || slow.saturating_mul(100) <= all.saturating_mul(SLOW_SYNCS_PERCENT) {
        return None;
    }
    warning(
        format!("{slow} of {all} syncs of the log in the last minute took longer than {} ms", bound.as_millis()),
        "look for what else writes to the disk of its data directory, or give it a faster disk: no write is faster than a sync, \
         and at this pace elections may fail",
    )
}

fn memory(input: &RuleInput<'_>, raised: bool) -> Option<Objection> {
    let memory = input.machine.memory?;
    let used = percent(memory.resident_bytes, memory.limit_bytes);
    if used < threshold(MEMORY_PERCENT, raised) {
        return None;
    }
    critical(
        format!("the process uses {} of {} of memory, {used} %", size(memory.resident_bytes), size(memory.limit_bytes)),
        "give the node more memory, or remove nodes of the tree and end sessions: meanwhile it refuses requests that create \
         something",
    )
}

fn state(input: &RuleInput<'_>, raised: bool) -> Option<Objection> {
    let (bytes, max) = (input.cluster.state_bytes, input.cluster.state_bytes_max?);
    let used = percent(bytes, max);
    if used < threshold(STATE_PERCENT, raised) {
        return None;
    }
    warning(
        format!("the state has {} of {}, {used} %", size(bytes), size(max)),
        "remove nodes of the tree or end sessions, or give every node more memory (serve --state-bytes-max): when the state is \
         full, the cluster refuses requests that create something",
    )
}

/// The voters that have not answered the leader for too long, and the number of all voters.
fn silent_voters(input: &RuleInput<'_>) -> (Vec<NodeId>, usize) {
    let cluster = input.cluster;
    let max = silence_max(cluster.timing);
    let voters = cluster.members.iter().filter(|member| member.voter);
    let count = voters.clone().count();
    // A member that has not answered this leader yet was silent since then.
    let is_silent = |member: &&MemberReading| member.id != cluster.id && member.silent.unwrap_or(input.led_for) > max;
    (voters.filter(is_silent).map(|member| member.id).collect(), count)
}

fn majority_at_risk(input: &RuleInput<'_>) -> Option<Objection> {
    if !input.cluster.leads() {
        return None;
    }
    let (silent, voters) = silent_voters(input);
    if silent.is_empty() || voters - silent.len() != majority(voters) {
        return None;
    }
    let left = voters - silent.len();
    let advice = match silent.as_slice() {
        [id] => format!("start node {id}, or repair the network to it; if its machine is lost: fairhold cluster replace {id}"),
        ids => format!(
            "start nodes {}, or repair the network to them; if a machine is lost: fairhold cluster replace N",
            joined(ids)
        ),
    };
    critical(format!("{}, and {left} of {voters} voters do: one more failure stops the service", unanswered(&silent)), advice)
}

fn no_quorum(input: &RuleInput<'_>) -> Option<Objection> {
    const ADVICE: &str = "start the other nodes, and check that they reach each other's peer ports: until then the cluster \
                          grants no locks and accepts no writes. If a majority of the machines is lost: \
                          docs/drills/two-of-three-are-lost.md";
    let cluster = input.cluster;
    if cluster.members.is_empty() {
        return None;
    }
    if cluster.leader.is_none() {
        return critical("this node hears from no leader", ADVICE);
    }
    if !cluster.leads() {
        return None;
    }
    let (silent, voters) = silent_voters(input);
    if voters - silent.len() >= majority(voters) {
        return None;
    }
    let left = voters - silent.len();
    critical(format!("{}, and {left} of {voters} voters are no majority", unanswered(&silent)), ADVICE)
}

fn member_behind(input: &RuleInput<'_>, raised: bool) -> Option<Objection> {
    let cluster = input.cluster;
    if !cluster.leads() {
        return None;
    }
    let max = threshold(LAG, raised);
    let behind = cluster.members.iter().filter_map(|member| {
        let needs_snapshot = member.matched.is_some() && member.matched < cluster.purged;
        (needs_snapshot || member.lag > Some(max)).then(|| match (member.lag, needs_snapshot) {
            (Some(lag), true) => format!("node {} is {lag} log entries behind, and needs a snapshot", member.id),
            (Some(lag), false) => format!("node {} is {lag} log entries behind", member.id),
            (None, _) => format!("node {} needs a snapshot", member.id),
        })
    });
    let behind: Vec<String> = behind.collect();
    if behind.is_empty() {
        return None;
    }
    warning(behind.join("; "), "check that the node runs, its disk, and the network between it and the leader")
}

fn divergence(cluster: &ClusterReading) -> Option<Objection> {
    let ids = |voters: bool| cluster.members.iter().filter(|member| member.voter || !voters).map(|member| member.id).collect();
    let Divergence { revision, states } = cluster.divergence.as_ref()?.among(&ids(false))?;
    let (seen, advice) = describe(&format!("revision {}", revision.0), &states, &ids(true), cluster.leader);
    critical(seen, advice)
}

fn join_stuck(input: &RuleInput<'_>) -> Option<Objection> {
    if input.stuck.is_empty() {
        return None;
    }
    let ids = joined(&input.stuck);
    warning(
        format!("the join of node {ids} makes no progress"),
        "see what it waits for: fairhold cluster members. To give up a join: fairhold cluster remove N",
    )
}

fn timing(input: &RuleInput<'_>) -> Option<Objection> {
    let cluster = input.cluster;
    if !cluster.leads() {
        return None;
    }
    let voters = cluster.members.iter().filter(|member| member.voter && member.id != cluster.id);
    let (took, id) = longest(voters.map(|member| (member.id, member.round_trip_p50, member.round_trip_p99)))?;
    let timing = cluster.timing;
    let fits = Timing::for_round_trip(took);
    // A slower profile than necessary works: it only takes longer to replace a dead leader.
    if fits.is_some_and(|fits| fits <= timing) {
        return None;
    }
    let max = timing.round_trip_max().as_millis();
    let took = took.as_micros().div_ceil(1_000);
    let seen = format!("the timing profile is {timing}, for round trips up to {max} ms, and node {id} needs up to {took} ms");
    match fits {
        Some(fits) => {
            warning(seen, format!("choose the profile that suits it, then restart each node: fairhold cluster set timing={fits}"))
        }
        None => warning(seen, format!("no profile suits that: repair the network to node {id}, or move the node closer")),
    }
}

fn members_differ(input: &RuleInput<'_>) -> Option<Objection> {
    let configured = input.machine.configured_members.as_ref()?;
    let ClusterReading { members, removed, .. } = input.cluster;
    // A list from before the cluster has changed does no harm.
    let is_known = |id: &NodeId| members.iter().any(|member| member.id == *id) || removed.contains(id);
    let strangers: Vec<NodeId> = configured.iter().copied().filter(|id| !is_known(id)).collect();
    if members.is_empty() || strangers.is_empty() {
        return None;
    }
    warning(
        format!("the configuration lists node {}, which is no member of the cluster", joined(&strangers)),
        "correct the list of members in the node's configuration, or leave it out: the data directory knows the members",
    )
}

fn upgrade_open(input: &RuleInput<'_>) -> Option<Objection> {
    let next = input.cluster.next_version?;
    warning(
        format!("the upgrade to cluster version {next} is open, and this node has not been restarted for a week"),
        "see what is missing: fairhold cluster upgrade status. To finish it: fairhold cluster upgrade finalize",
    )
}

fn backup_old(input: &RuleInput<'_>) -> Option<Objection> {
    let backups = input.machine.backups.as_ref()?;
    let max = backups.every.saturating_mul(BACKUP_INTERVALS_MAX);
    // A process that has just started makes a missing backup at once, so it may try that first.
    let has_tried = backups.fault.is_some() || backups.running > max;
    if backups.age.is_some_and(|age| age <= max) || !has_tried {
        return None;
    }
    let (dir, every) = (&backups.dir, rounded(backups.every));
    let found = match backups.age {
        Some(age) => format!("the newest scheduled backup in {dir} is {} old, and one is due every {every}", rounded(age)),
        None => format!("no scheduled backup was found in {dir}, and one is due every {every}"),
    };
    let seen = match &backups.fault {
        Some(fault) => format!("{found}; the last attempt failed: {fault}"),
        None => found,
    };
    warning(
        seen,
        "check that the folder exists, that the node may write to it, and that its disk answers and has space. Once the disk \
         answers, the node tries again every minute. To have a backup now: fairhold backup save FILE",
    )
}

fn certificate(input: &RuleInput<'_>) -> Option<Objection> {
    let needs_attention =
        |urgency: CertificateUrgency, fault: &Option<String>| urgency > CertificateUrgency::Valid || fault.is_some();
    let bad = input.machine.certificates.iter().filter(|status| needs_attention(status.urgency, &status.fault));
    let worst = bad.clone().map(|status| status.urgency).max()?;
    let say = |status: &fairhold_types::dto::CertificateStatus| {
        let end = format!("the certificate for {} is valid until {}", status.port, status.not_after);
        match &status.fault {
            Some(fault) => format!("{end}, and the files for the next one cannot be used: {fault}"),
            None => end,
        }
    };
    let seen = bad.map(say).collect::<Vec<_>>().join("; ");
    match worst {
        CertificateUrgency::Valid | CertificateUrgency::RenewSoon => warning(seen, RENEW),
        CertificateUrgency::RenewNow | CertificateUrgency::Expired => critical(seen, RENEW),
    }
}

fn audit(input: &RuleInput<'_>) -> Option<Objection> {
    let status = input.machine.audit.as_ref()?;
    let lost = status.entries_lost;
    match &status.fault {
        Some(fault) => critical(
            format!("the audit log cannot be written: {fault}; {lost} entries are lost"),
            "free space on its disk, or repair the folder: the node then resumes writing by itself",
        ),
        None if input.has_lost_audit => warning(
            format!("the audit log has lost {lost} entries since the node started, some of them in the last hour"),
            "look for the reason in the node's log, and give the audit log a faster disk or more space",
        ),
        None => None,
    }
}
