//! The external resource: if it compares tokens, it loses nothing, and it admits a client that still has its lease.

use super::Check;
use crate::{
    history::{Call, History, Outcome},
    workload::is_administered,
};
use std::collections::{HashMap, HashSet};

pub(crate) fn check(history: &History) -> Check {
    let mut check = Check::new("fencing", "nothing is lost if tokens are compared, and a holder is admitted");
    let mut now: HashMap<&str, (u64, u64)> = HashMap::new();
    for write in &history.resource {
        check.count(&write.key);
        let (newest, value) = now.entry(&write.key).or_default();
        if write.accepted {
            if write.token < *newest {
                check.broken(|| format!("{}: token {} was accepted after {newest}", write.key, write.token));
            }
            if write.based_on != *value {
                check.broken(|| {
                    format!(
                        "{}: token {} overwrote {value} with {}, but its writer had not seen it",
                        write.key, write.token, write.value
                    )
                });
            }
            (*newest, *value) = (write.token, write.value);
        } else if write.believed && !history.clocks_were_skewed(write.at, write.at) {
            check.broken(|| format!("{}: token {} was refused while its lease was good", write.key, write.token));
        }
    }
    refused_too_early(history, &mut check);
    check
}

/// The cluster refuses a write with a token only after its grant has ended.
fn refused_too_early(history: &History, check: &mut Check) {
    let mut good_until: HashMap<usize, u64> = HashMap::new();
    let mut released_grants: HashSet<usize> = HashSet::new();
    // An upgrade changes the token. If its outcome is unknown, both tokens may be refused.
    let mut tokens: HashMap<usize, Option<u64>> = HashMap::new();
    // In the order of sending: the operations of a grant belong to one process, one after the other.
    for op in &history.ops {
        // An administrator may have ended the grant.
        let Some(grant) = op.grant.filter(|_| !is_administered(&op.key)) else { continue };
        if matches!(op.call, Call::Acquire | Call::Renew) && op.is_ok() {
            good_until.insert(grant, op.start + op.ttl.unwrap_or(0));
        } else if op.call == Call::Renew && op.outcome == Outcome::Unknown {
            // It may have set a shorter ttl, or may still set it.
            let shorter = op.start + op.ttl.unwrap_or(0);
            good_until.entry(grant).and_modify(|until| *until = shorter.min(*until));
        } else if op.call == Call::Upgrade && op.outcome != Outcome::Fail {
            tokens.insert(grant, op.token.filter(|_| op.is_ok()));
        } else if op.call == Call::Release {
            released_grants.insert(grant);
        } else if op.call == Call::FencedWrite && op.error.as_deref().is_some_and(|error| error.starts_with("412")) {
            check.count(&op.key);
            let good = good_until.get(&grant).is_some_and(|until| op.end < *until);
            let current = tokens.get(&grant).is_none_or(|token| *token == op.token && op.token.is_some());
            if good && current && !released_grants.contains(&grant) && !history.clocks_were_skewed(op.start, op.end) {
                check.broken(|| format!("{}: operation {} was refused while its lease was good", op.key, op.index));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::plant::{Planted, fault, grant, op, upgrade};

    #[test]
    fn refused_sleepers_are_good_and_a_lost_write_is_found() {
        let good = Planted::new().resource(5, 0, 1, true, true).resource(8, 1, 2, true, true).resource(5, 1, 2, false, false);
        assert_eq!(check(&good.done()).broken, Vec::<String>::new());
        let lost = Planted::new().resource(5, 0, 1, true, true).resource(5, 0, 1, true, true);
        assert_eq!(check(&lost.done()).broken.len(), 1);
        let old = Planted::new().resource(8, 0, 1, true, true).resource(5, 1, 2, true, false);
        assert_eq!(check(&old.done()).broken.len(), 1);
    }

    #[test]
    fn a_refused_holder_is_found_if_clocks_are_true() {
        let mut history = Planted::new().resource(8, 0, 1, true, true).resource(5, 0, 1, false, true).done();
        assert_eq!(check(&history).broken.len(), 1);
        history.faults.push(fault("fast-clock", true));
        assert_eq!(check(&history).broken.len(), 0);
    }

    #[test]
    fn a_fence_that_refuses_too_early_is_found() {
        let refused = op(Call::FencedWrite, "a").with(|op| {
            (op.grant, op.outcome, op.error) = (Some(0), Outcome::Fail, Some("412 stale_token".to_owned()));
        });
        let with_lease = |end: u64| {
            let acquire = grant("a", 5).at(0, 10).with(|op| op.ttl = Some(100));
            Planted::new().op(acquire).op(refused.clone().at(20, end)).done()
        };
        assert_eq!(check(&with_lease(90)).broken.len(), 1);
        assert_eq!(check(&with_lease(110)).broken.len(), 0);
    }

    #[test]
    fn the_token_from_before_an_upgrade_is_refused_and_the_new_one_is_accepted() {
        let refused = |token: u64| {
            let about = |op: &mut crate::history::Op| {
                (op.grant, op.outcome, op.error) = (Some(0), Outcome::Fail, Some("412 stale_token".to_owned()));
                op.token = Some(token);
            };
            let acquire = grant("a", 5).at(0, 10).with(|op| op.ttl = Some(100));
            let planted = Planted::new().op(acquire).op(upgrade("a", 0, 8).at(11, 15));
            check(&planted.op(op(Call::FencedWrite, "a").at(20, 30).with(about)).done()).broken.len()
        };
        assert_eq!((refused(5), refused(8)), (0, 1));
    }
}
