//! The faults, and the choice of the next ones.

use rand::{RngExt, rngs::SmallRng};
use std::collections::BTreeMap;

/// The class of a fault. Pairs consist of faults of different classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Processes exit or stop.
    Process,
    /// Packets are lost, delayed or reordered.
    Network,
    /// Clocks are wrong.
    Clock,
    /// Disks are full or slow, fail, or lose data.
    Disk,
    /// A resource is scarce.
    Squeeze,
    /// Nothing is wrong: an operator changes the members, or their programs.
    Operator,
}

macro_rules! faults {
    ($($(#[$doc:meta])* $variant:ident => $class:ident $name:literal $what:literal,)*) => {
        /// A fault.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Fault {
            $($variant,)*
        }

        /// Every fault.
        pub(crate) const FAULTS: &[Fault] = &[$(Fault::$variant),*];

        impl Fault {
            /// Its name.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Fault::$variant => $name,)*
                }
            }

            /// A description.
            pub(crate) fn what(self) -> &'static str {
                match self {
                    $(Fault::$variant => $what,)*
                }
            }

            /// Its class.
            pub(crate) fn class(self) -> Class {
                match self {
                    $(Fault::$variant => Class::$class,)*
                }
            }
        }
    };
}

faults! {
    KillLeader => Process "kill-leader" "kill -9 of the leader",
    KillFollower => Process "kill-follower" "kill -9 of a follower",
    KillAll => Process "kill-all" "kill -9 of all nodes at once",
    StopLeader => Process "stop-leader" "SIGTERM to the leader",
    PauseLeader => Process "pause-leader" "SIGSTOP to the leader, and SIGCONT later",
    PauseFollower => Process "pause-follower" "SIGSTOP to a follower, and SIGCONT later",
    FreezeLeader => Process "freeze-leader" "the leader's control group is frozen",
    RollingRestart => Process "rolling-restart" "SIGTERM and start, node after node",
    TransferLeader => Process "transfer-leader" "leadership is handed over repeatedly",
    TakeSnapshots => Process "take-snapshots" "every node takes a snapshot",
    CutLeader => Network "cut-leader" "the leader and the other nodes do not reach each other",
    IsolateLeader => Network "isolate-leader" "the leader reaches no node, and clients do not reach it",
    CutFollower => Network "cut-follower" "a follower and the other nodes do not reach each other",
    SplitAll => Network "split-all" "no node reaches another",
    OneWayOut => Network "one-way-out" "packets from the leader to other nodes are lost, packets to it arrive",
    OneWayIn => Network "one-way-in" "packets from other nodes to the leader are lost, packets from it arrive",
    Bridge => Network "bridge" "two parts see each other only through one node, which sees all",
    Flapping => Network "flapping" "a random node is cut off and back several times a second",
    LostAnswers => Network "lost-answers" "requests of clients arrive, the answers are lost",
    Delay => Network "delay" "each packet between nodes takes 40 ms",
    Loss => Network "loss" "a tenth of all packets is lost",
    Reorder => Network "reorder" "packets overtake each other within 20 ms",
    Duplicate => Network "duplicate" "a third of all packets arrives twice",
    WallForward => Clock "wall-forward" "the leader's wall clock jumps an hour ahead",
    WallBack => Clock "wall-back" "a follower's wall clock jumps an hour back",
    WallStrobe => Clock "wall-strobe" "all wall clocks jump to and fro",
    FastClock => Clock "fast-clock" "the leader's clocks run five times as fast",
    SlowClock => Clock "slow-clock" "the leader's clocks run half as fast",
    FastFollowerClock => Clock "fast-follower-clock" "a follower's clocks run five times as fast",
    SlowFollowerClock => Clock "slow-follower-clock" "a follower's clocks run half as fast",
    FullDisk => Disk "full-disk" "the leader's disk is full",
    SlowSync => Disk "slow-sync" "each sync of the leader takes 70 ms longer",
    SlowFollowerSync => Disk "slow-follower-sync" "each sync of a follower takes 100 ms longer",
    SyncError => Disk "sync-error" "a sync of the leader fails with EIO",
    HungDisk => Disk "hung-disk" "no write of the leader completes",
    FrozenDisk => Disk "frozen-disk" "no write of a follower completes",
    PowerLoss => Disk "power-loss" "power cut at the leader: its unsynced data is lost",
    PowerLossAll => Disk "power-loss-all" "the same at all nodes at once",
    TornLog => Disk "torn-log" "kill -9 of a follower, and its log ends in the middle of a record",
    FlippedLog => Disk "flipped-log" "kill -9 of a follower, and a byte of its log is changed",
    FlippedSnapshot => Disk "flipped-snapshot" "kill -9 of a follower, and a byte of its snapshot is changed",
    WipedData => Disk "wiped-data" "a follower comes back without its data directory",
    CpuSqueeze => Squeeze "cpu-squeeze" "the leader gets a tenth of a processor",
    MemorySqueeze => Squeeze "memory-squeeze" "a follower gets hardly more memory than it has",
    SlowClients => Squeeze "slow-clients" "300 clients send the leader a byte a second",
    FloodHandshakes => Squeeze "flood-handshakes" "a client machine opens TLS connections to the leader as fast as it can",
    RollUpgrade => Operator "roll-upgrade" "node after node is restarted with the newer program; half of them wait",
    RollDowngrade => Operator "roll-downgrade" "the same with the older program",
    AddRemove => Operator "add-remove" "a node joins on another machine, and then a member is removed",
    ReplaceWiped => Operator "replace-wiped" "a follower loses its data, and a new node replaces it, there or on another machine",
    RotateCerts => Operator "rotate-certs" "all nodes get new certificates, and then others of a new authority, while they run",
}

/// Names of groups of faults.
const GROUPS: &[(&str, &[Fault])] = &[
    ("kill", &[Fault::KillLeader, Fault::KillFollower, Fault::KillAll]),
    ("pause", &[Fault::PauseLeader, Fault::PauseFollower]),
    ("partition", &[Fault::CutLeader, Fault::IsolateLeader, Fault::CutFollower, Fault::SplitAll, Fault::Bridge]),
    ("one-way", &[Fault::OneWayOut, Fault::OneWayIn]),
    ("wall-clock", &[Fault::WallForward, Fault::WallBack, Fault::WallStrobe]),
    ("clock-rate", &[Fault::FastClock, Fault::SlowClock, Fault::FastFollowerClock, Fault::SlowFollowerClock]),
];

/// Parses a list of names.
pub(crate) fn parse(text: &str) -> Result<Vec<Fault>, String> {
    let mut faults = Vec::new();
    for name in text.split(',').map(str::trim).filter(|name| !name.is_empty() && *name != "none") {
        let of_group = GROUPS.iter().find(|(group, _)| *group == name).map(|(_, faults)| *faults);
        let of_class = match name {
            "all" => Some(FAULTS.to_vec()),
            "process" => Some(of(Class::Process)),
            "network" => Some(of(Class::Network)),
            "clock" => Some(of(Class::Clock)),
            "disk" => Some(of(Class::Disk)),
            "squeeze" => Some(of(Class::Squeeze)),
            "operator" => Some(of(Class::Operator)),
            _ => None,
        };
        match (of_group, of_class, FAULTS.iter().find(|fault| fault.name() == name)) {
            (Some(group), _, _) => faults.extend(group),
            (None, Some(class), _) => faults.extend(class),
            (None, None, Some(fault)) => faults.push(*fault),
            (None, None, None) => return Err(format!("there is no fault {name:?}; `--list` shows all")),
        }
    }
    let mut seen = Vec::new();
    faults.retain(|fault| {
        !seen.contains(fault) && {
            seen.push(*fault);
            true
        }
    });
    Ok(faults)
}

fn of(class: Class) -> Vec<Fault> {
    FAULTS.iter().copied().filter(|fault| fault.class() == class).collect()
}

impl Fault {
    /// Whether it may cause a node to exit.
    pub(crate) fn may_end_nodes(self) -> bool {
        matches!(self.class(), Class::Disk) || matches!(self, Fault::MemorySqueeze | Fault::StopLeader | Fault::RollingRestart)
    }

    /// Whether it leaves no majority, so that no operation can succeed.
    pub(crate) fn stops_service(self) -> bool {
        matches!(self, Fault::KillAll | Fault::SplitAll | Fault::PowerLossAll)
    }

    /// Whether a node may not reach the leader while it lasts.
    fn cuts_nodes_off(self) -> bool {
        let of_group = |name: &str| GROUPS.iter().any(|(group, faults)| *group == name && faults.contains(&self));
        of_group("partition") || of_group("one-way")
    }

    /// Whether both can be there at once. Each restarted node must become ready before the next one is stopped.
    fn goes_with(self, other: Fault) -> bool {
        let restarts = |one: Fault, other: Fault| one == Fault::RollingRestart && other.cuts_nodes_off();
        self.class() != other.class() && !restarts(self, other) && !restarts(other, self)
    }

    /// Whether it changes the rate of a clock. If it is the leader's clock, leases may end too early or too late.
    pub(crate) fn changes_rate(self) -> bool {
        matches!(self, Fault::FastClock | Fault::SlowClock | Fault::FastFollowerClock | Fault::SlowFollowerClock)
    }

    /// Whether it restarts nodes with another program.
    pub(crate) fn changes_program(self) -> bool {
        matches!(self, Fault::RollUpgrade | Fault::RollDowngrade)
    }

    /// Whether it changes the members, which the first cluster version cannot.
    pub(crate) fn changes_members(self) -> bool {
        matches!(self, Fault::AddRemove | Fault::ReplaceWiped)
    }

    /// Whether it is about certificates and handshakes.
    pub(crate) fn needs_tls(self) -> bool {
        matches!(self, Fault::FloodHandshakes | Fault::RotateCerts)
    }

    /// Whether it leaves a majority, so that operations must succeed.
    pub(crate) fn leaves_majority(self) -> bool {
        !self.stops_service() && self != Fault::LostAnswers
    }
}

/// The faults in the order in which each is injected alone. First those that change programs: once the upgrade is
/// finished, there is no way back to the older program.
pub(crate) fn alone(faults: &[Fault]) -> Vec<Fault> {
    let mut faults = faults.to_vec();
    faults.sort_by_key(|fault| !fault.changes_program());
    faults
}

/// The next round once each fault has been injected alone: one fault, or a pair that can be there at once.
pub(crate) fn choose(faults: &[Fault], not_covered: &BTreeMap<&'static str, String>, random: &mut SmallRng) -> Vec<Fault> {
    let able: Vec<Fault> = faults.iter().copied().filter(|fault| !not_covered.contains_key(fault.name())).collect();
    if able.is_empty() {
        return able;
    }
    let first = able[random.random_range(0..able.len())];
    let others: Vec<Fault> = able.iter().copied().filter(|fault| fault.goes_with(first)).collect();
    if others.is_empty() || random.random_range(0..4) == 0 {
        return vec![first];
    }
    vec![first, others[random.random_range(0..others.len())]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn known_names_are_accepted_and_others_are_reported() {
        assert_eq!(parse("kill-leader, one-way").unwrap(), [Fault::KillLeader, Fault::OneWayOut, Fault::OneWayIn]);
        assert_eq!(parse("kill,kill-leader").unwrap().len(), 3, "nothing twice");
        assert_eq!(parse("none").unwrap(), []);
        assert_eq!(parse("all").unwrap().len(), FAULTS.len());
        assert!(parse("kil-leader").unwrap_err().contains("kil-leader"));
    }

    #[test]
    fn programs_change_before_anything_else() {
        let faults = parse("kill-leader,roll-downgrade,add-remove,roll-upgrade").unwrap();
        assert_eq!(alone(&faults), [Fault::RollDowngrade, Fault::RollUpgrade, Fault::KillLeader, Fault::AddRemove]);
        assert_eq!(parse("operator").unwrap().len(), 5);
    }

    #[test]
    fn pairs_are_of_different_classes_and_leave_out_what_cannot_be_done() {
        let faults = parse("kill-leader,kill-follower,delay,wall-back").unwrap();
        let not_covered = BTreeMap::from([("delay", "why".to_owned())]);
        let mut random = SmallRng::seed_from_u64(1);
        let rounds: Vec<Vec<Fault>> = (0..100).map(|_| choose(&faults, &not_covered, &mut random)).collect();
        assert!(rounds.iter().flatten().all(|fault| *fault != Fault::Delay));
        let pairs: Vec<&Vec<Fault>> = rounds.iter().filter(|round| round.len() == 2).collect();
        assert!(!pairs.is_empty() && pairs.iter().all(|pair| pair[0].class() != pair[1].class()), "{pairs:?}");
    }
    /// It waited for a minute for each node that could reach no other one, and called the cluster broken.
    #[test]
    fn a_rolling_restart_is_not_beside_a_cut() {
        assert!(!Fault::RollingRestart.goes_with(Fault::SplitAll) && !Fault::OneWayIn.goes_with(Fault::RollingRestart));
        assert!(Fault::RollingRestart.goes_with(Fault::Delay) && Fault::KillLeader.goes_with(Fault::SplitAll));
        assert!(!Fault::KillLeader.goes_with(Fault::KillFollower), "of one class");
    }
}
