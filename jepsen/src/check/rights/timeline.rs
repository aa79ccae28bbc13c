//! When a user certainly lacked a right, and when it certainly had it.

use crate::history::{Call, History, Op, OpRights, Right};
use std::{collections::HashMap, fmt};

/// A time without a right. Times are in microseconds since the start of the run.
#[derive(Debug, Clone)]
pub(super) struct Loss {
    what: String,
    /// When the first request to take it was sent.
    pub(super) maybe_from: u64,
    /// When that was acknowledged, and the revision in the answer: it is lost since then at the latest.
    sure_from: Option<(u64, u64)>,
    /// When the first request to give it back was sent.
    maybe_to: u64,
    /// When that was acknowledged.
    sure_to: u64,
    /// A revision at which nobody had given it back yet.
    last_revision: u64,
}

/// All losses of one right of one user, or the loss of a token, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Losses(Vec<Loss>);

/// The losses of all users.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    rights: HashMap<(u64, Right), Losses>,
    credentials: HashMap<u64, Losses>,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let revision = self.sure_from.map_or(0, |(_, revision)| revision);
        write!(f, "{} at revision {revision}", self.what)
    }
}

impl Loss {
    fn new(what: String, maybe_from: u64) -> Loss {
        let never = u64::MAX;
        Loss { what, maybe_from, sure_from: None, maybe_to: never, sure_to: never, last_revision: never }
    }

    /// Whether a call was sent at least this long after the acknowledged loss, and ended before a request to give the right
    /// back was sent.
    pub(super) fn covers(&self, op: &Op, slack: u64) -> bool {
        self.sure_from.is_some_and(|(time, _)| time.saturating_add(slack) < op.start) && op.end < self.maybe_to
    }

    /// The revisions at which the right was certainly lost: after the first one, up to the last one.
    pub(super) fn revisions(&self) -> Option<(u64, u64)> {
        self.sure_from.map(|(_, from)| (from, self.last_revision))
    }

    fn is_at_revision(&self, revision: u64) -> bool {
        self.revisions().is_some_and(|(after, last)| after < revision && revision <= last)
    }
}

impl Losses {
    /// The last loss that may have begun before that time.
    pub(super) fn last_before(&self, time: u64) -> Option<&Loss> {
        let until = self.0.partition_point(|loss| loss.maybe_from < time);
        self.0[..until].last()
    }

    /// The first loss that began after that time.
    pub(super) fn first_after(&self, time: u64) -> Option<&Loss> {
        self.0.get(self.0.partition_point(|loss| loss.maybe_from <= time))
    }

    /// The loss that was certainly in effect at that revision.
    pub(super) fn at_revision(&self, revision: u64) -> Option<&Loss> {
        let until = self.0.partition_point(|loss| loss.sure_from.is_some_and(|(_, from)| from < revision));
        self.0[..until].last().filter(|loss| loss.is_at_revision(revision))
    }

    /// Whether no loss may have been in effect between two times.
    fn none_between(&self, start: u64, end: u64) -> bool {
        self.last_before(end).is_none_or(|loss| loss.sure_to < start)
    }

    fn narrow(&mut self, op: &Op) {
        if self.0.last().is_none_or(|last| last.maybe_to != u64::MAX) {
            self.0.push(Loss::new(format!("operation {} ({})", op.index, op.value.as_deref().unwrap_or_default()), op.start));
        }
        if let (Some(loss), true, Some(revision)) = (self.0.last_mut(), op.is_ok(), op.number) {
            loss.sure_from.get_or_insert((op.end, revision));
        }
    }

    fn widen(&mut self, op: &Op, newest: &Newest) {
        if self.0.is_empty() {
            // A user has nothing at first.
            let mut loss = Loss::new("the start of the run".to_owned(), 0);
            loss.sure_from = Some((0, 0));
            self.0.push(loss);
        }
        let Some(loss) = self.0.last_mut() else { return };
        if loss.maybe_to == u64::MAX {
            (loss.maybe_to, loss.last_revision) = (op.start, newest.before(op.start));
        }
        if op.is_ok() {
            loss.sure_to = loss.sure_to.min(op.end);
        }
    }
}

impl Timeline {
    /// All changes of rights, each user's in order.
    pub(super) fn of(history: &History) -> Timeline {
        let newest = Newest::of(history);
        let mut timeline = Timeline::default();
        for op in &history.ops {
            let Some(change) = &op.rights else { continue };
            if op.call == Call::Narrow {
                for right in &change.rights {
                    timeline.rights.entry((change.user, *right)).or_default().narrow(op);
                }
                if let Some(credential) = change.credential {
                    timeline.credentials.entry(credential).or_default().narrow(op);
                }
            } else if op.call == Call::Widen {
                for right in &change.rights {
                    timeline.rights.entry((change.user, *right)).or_default().widen(op, &newest);
                }
            }
        }
        timeline
    }

    /// The losses of everything that a call needs: its rights, and its token.
    pub(super) fn losses<'a>(&'a self, call: &'a OpRights) -> impl Iterator<Item = &'a Losses> {
        let rights = call.rights.iter().filter_map(|right| self.rights.get(&(call.user, *right)));
        rights.chain(call.credential.and_then(|credential| self.credentials.get(&credential)))
    }

    /// Whether a call certainly had all the rights that it needs, for its whole time.
    pub(super) fn has_rights(&self, call: &OpRights, start: u64, end: u64) -> bool {
        let losses = |right: &Right| self.rights.get(&(call.user, *right));
        call.rights.iter().all(|right| losses(right).is_none_or(|losses| losses.none_between(start, end)))
    }

    /// Whether the token of a call was certainly good until then.
    pub(super) fn has_credential(&self, call: &OpRights, end: u64) -> bool {
        let losses = call.credential.and_then(|credential| self.credentials.get(&credential));
        losses.is_none_or(|losses| losses.last_before(end).is_none())
    }
}

/// The newest revision that any answer had shown by each time.
struct Newest(Vec<(u64, u64)>);

impl Newest {
    fn of(history: &History) -> Newest {
        let answers = history.ops.iter().filter(|op| op.is_ok());
        let mut known: Vec<(u64, u64)> = answers.filter_map(|op| Some((op.end, revision(op)?))).collect();
        known.sort_unstable();
        let mut newest = 0;
        for (_, revision) in &mut known {
            newest = newest.max(*revision);
            *revision = newest;
        }
        Newest(known)
    }

    fn before(&self, time: u64) -> u64 {
        let until = self.0.partition_point(|(end, _)| *end < time);
        self.0[..until].last().map_or(0, |(_, revision)| *revision)
    }
}

/// A revision that the cluster had reached when it answered.
fn revision(op: &Op) -> Option<u64> {
    if matches!(op.call, Call::Narrow | Call::Widen) { op.number } else { op.revision.max(op.token) }
}
