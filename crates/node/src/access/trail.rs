//! What one request touched, and how its rights to that were decided, for the audit log.

use super::refusal::AccessRefusal;
use fairhold_access::{Need, Principal, Rights, RoleName};
use fairhold_types::LockName;
use parking_lot::Mutex;

/// How many names the trail of one request keeps.
const NAMES_MAX: usize = 64;
/// How many bytes they have together.
const NAME_BYTES_MAX: usize = 8 * 1024;

/// The trail of one request. The node adds to it while the request is decided.
#[derive(Debug, Default)]
pub struct AccessTrail(Mutex<TrailRecord>);

/// What a trail has.
#[derive(Debug, Clone, Default)]
pub struct TrailRecord {
    /// The principal, once the credential was read.
    pub principal: Option<Principal>,
    /// Whether rights are enforced for the request.
    pub is_enforced: bool,
    /// What it touched.
    pub names: Vec<TouchedName>,
    /// How many further decisions are left out.
    pub names_omitted: u64,
    /// Why something was refused; the newest refusal.
    pub refusal: Option<AccessRefusal>,
    is_sealed: bool,
    bytes: usize,
}

/// A name that a request touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TouchedName {
    /// The name as in a rule: `locks:orders/42`.
    pub name: String,
    /// The verb that the request needs on it. `None` if an id in the request is a right of its own.
    pub verb: Option<String>,
    /// The decision.
    pub verdict: NameVerdict,
}

/// How the right to a name was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameVerdict {
    /// This role allows it.
    Allowed(RoleName),
    /// No role allows it.
    Denied,
    /// Nothing was decided: rights are not enforced, or no right is needed.
    Undecided,
}

impl AccessTrail {
    /// What it has so far.
    #[must_use]
    pub fn record(&self) -> TrailRecord {
        self.0.lock().clone()
    }

    /// From now on it adds only refusals: a stream is decided again and again.
    pub fn seal(&self) {
        self.0.lock().is_sealed = true;
    }

    /// The caller is known. A request that is admitted a second time, by newer access data, begins anew.
    pub(super) fn identified(&self, principal: &Principal, is_enforced: bool) {
        *self.0.lock() = TrailRecord { principal: Some(principal.clone()), is_enforced, ..TrailRecord::default() };
    }

    /// These needs were decided by these rights.
    pub(super) fn decided(&self, rights: &Rights, needs: &[Need<'_>], refusal: Option<&AccessRefusal>) {
        let mut record = self.0.lock();
        if let Some(refusal) = refusal {
            record.refuse(refusal);
        }
        if record.is_sealed {
            return;
        }
        for need in needs {
            let permission = rights.decide(need);
            let verdict = permission.map_or(NameVerdict::Denied, |permission| NameVerdict::Allowed(permission.role.clone()));
            record.add(TouchedName { name: need.on(), verb: Some(need.needs()), verdict });
        }
    }

    /// These needs were not decided.
    pub(super) fn undecided<'n>(&self, needs: impl IntoIterator<Item = Need<'n>>) {
        let mut record = self.0.lock();
        if record.is_sealed {
            return;
        }
        for need in needs {
            record.add(TouchedName { name: need.on(), verb: Some(need.needs()), verdict: NameVerdict::Undecided });
        }
    }

    /// The request names a grant of these locks by its id.
    pub(super) fn by_id<'l>(&self, locks: impl IntoIterator<Item = &'l LockName>) {
        let mut record = self.0.lock();
        for lock in locks {
            record.add(TouchedName { name: format!("locks:{lock}"), verb: None, verdict: NameVerdict::Undecided });
        }
    }
}

impl TrailRecord {
    fn refuse(&mut self, refusal: &AccessRefusal) {
        self.refusal = Some(refusal.clone());
        if let AccessRefusal::Denied(denied) = refusal {
            let (name, verb) = (denied.on.clone(), Some(denied.needs.clone()));
            self.add(TouchedName { name, verb, verdict: NameVerdict::Denied });
        }
    }

    /// Adds a name, unless it is known already. A name with a verb says more than one without.
    fn add(&mut self, touched: TouchedName) {
        let is_same = |known: &TouchedName| known.name == touched.name && (touched.verb.is_none() || known.verb == touched.verb);
        if let Some(known) = self.names.iter_mut().find(|known| is_same(known)) {
            if touched.verdict != NameVerdict::Undecided {
                known.verdict = touched.verdict;
            }
            return;
        }
        let bytes = touched.name.len() + touched.verb.as_ref().map_or(0, String::len);
        if self.names.len() >= NAMES_MAX || self.bytes + bytes > NAME_BYTES_MAX {
            self.names_omitted += 1;
            return;
        }
        self.bytes += bytes;
        self.names.push(touched);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_access::{Attributes, Verb};
    use std::collections::BTreeMap;

    /// The rights of an administrator by a file, which cover everything.
    fn everything() -> Rights {
        let principal = Principal::file_admin();
        Rights::compile(&principal, &Attributes::of(&principal, BTreeMap::new()), |_| Vec::new(), |_| None)
    }

    fn lock(name: &str) -> LockName {
        LockName::parse(name).unwrap()
    }

    fn shown(trail: &AccessTrail) -> Vec<String> {
        let one = |touched: &TouchedName| {
            let verdict = match &touched.verdict {
                NameVerdict::Allowed(role) => format!("by {role}"),
                NameVerdict::Denied => "denied".to_owned(),
                NameVerdict::Undecided => "undecided".to_owned(),
            };
            format!("{} {} {verdict}", touched.verb.as_deref().unwrap_or("-"), touched.name)
        };
        trail.record().names.iter().map(one).collect()
    }

    #[test]
    fn a_trail_has_each_name_once_with_the_role_that_allows_it() {
        let trail = AccessTrail::default();
        let (a, b) = (lock("a"), lock("b/c"));
        for _ in 0..3 {
            trail.decided(&everything(), &[Need::on_lock(Verb::Acquire, &a)], None);
            trail.decided(&Rights::default(), &[Need::on_lock(Verb::Inspect, &b)], None);
            trail.by_id([&a, &lock("d")]);
        }
        assert_eq!(shown(&trail), ["acquire locks:a by admin", "inspect locks:b/c denied", "- locks:d undecided"]);
    }

    #[test]
    fn a_trail_is_bounded_and_counts_what_it_leaves_out() {
        let trail = AccessTrail::default();
        let many: Vec<LockName> = (0..1_000).map(|number| lock(&format!("lock-{number}"))).collect();
        trail.undecided(many.iter().map(|lock| Need::on_lock(Verb::Acquire, lock)));
        let record = trail.record();
        assert_eq!((record.names.len(), record.names_omitted), (NAMES_MAX, 1_000 - NAMES_MAX as u64));

        let trail = AccessTrail::default();
        let long: Vec<LockName> = (10..60).map(|number| lock(&format!("{number}{}", "x".repeat(500)))).collect();
        trail.undecided(long.iter().map(|lock| Need::on_lock(Verb::Acquire, lock)));
        let bytes: usize = trail.record().names.iter().map(|touched| touched.name.len()).sum();
        assert!(bytes <= NAME_BYTES_MAX && trail.record().names_omitted > 30, "{bytes}");
    }

    #[test]
    fn a_sealed_trail_adds_only_refusals() {
        let trail = AccessTrail::default();
        let (a, b) = (lock("a"), lock("b"));
        let need = Need::on_lock(Verb::Acquire, &a);
        trail.decided(&everything(), std::slice::from_ref(&need), None);
        trail.seal();
        trail.decided(&everything(), &[Need::on_lock(Verb::Acquire, &b)], None);
        trail.undecided([Need::on_lock(Verb::Acquire, &b)]);
        assert_eq!(shown(&trail), ["acquire locks:a by admin"]);
        let denied = AccessRefusal::Denied(Rights::default().decide(&need).unwrap_err());
        trail.decided(&Rights::default(), &[need], Some(&denied));
        assert_eq!(shown(&trail), ["acquire locks:a denied"]);
        assert_eq!(trail.record().refusal, Some(denied));
    }
}
