//! By revision: no waiter is granted a lock before another that was earlier in its queue.

use super::Check;
use crate::history::History;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn check(history: &History) -> Check {
    let mut check = Check::new("fair order", "no waiter is granted a lock before an earlier one in the queue");
    let events = history.longest_watch();
    let mut waiting: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    let mut holding: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    // Only grants that waited have an order to check.
    let mut behind: BTreeSet<(&str, u64)> = BTreeSet::new();
    for event in events {
        let (Some(lock), Some(number)) = (event.text("lock"), event.number("number")) else { continue };
        let (line, holders) = (waiting.entry(lock).or_default(), holding.entry(lock).or_default());
        match event.kind() {
            "queued" => {
                if !line.is_empty() || !holders.is_empty() {
                    behind.insert((lock, number));
                }
                line.insert(number);
            }
            "granted" => {
                line.remove(&number);
                holders.insert(number);
                if behind.remove(&(lock, number)) {
                    check.count(lock);
                }
                if let Some(earlier) = line.first().filter(|earlier| **earlier < number) {
                    check.broken(|| format!("{lock}: at revision {} {number} overtook {earlier}", event.revision));
                }
            }
            "ended" | "cooling" => {
                line.remove(&number);
                holders.remove(&number);
                behind.remove(&(lock, number));
            }
            _other => {}
        }
    }
    check
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::plant::Planted;
    use serde_json::json;

    fn history(first: u64, then: u64) -> History {
        let queued = |number: u64| json!({"type": "queued", "lock": "a", "number": number, "owner": "p"});
        let granted = |number: u64| json!({"type": "granted", "lock": "a", "number": number, "token": 9, "owner": "p"});
        let planted = Planted::new().event(0, 4, queued(4)).event(0, 5, queued(5));
        planted.event(0, 8, granted(first)).event(0, 9, granted(then)).done()
    }

    #[test]
    fn the_order_of_the_queue_is_good_and_overtaking_is_found() {
        assert_eq!(check(&history(4, 5)).broken, Vec::<String>::new());
        assert_eq!(check(&history(5, 4)).broken.len(), 1);
    }

    #[test]
    fn only_a_grant_after_a_wait_shows_an_order() {
        let ended = json!({"type": "ended", "lock": "a", "number": 4, "reason": "released"});
        let granted = |number: u64| json!({"type": "granted", "lock": "a", "number": number, "token": 9, "owner": "p"});
        let queued = |number: u64| json!({"type": "queued", "lock": "a", "number": number, "owner": "p"});
        let alone = Planted::new().event(0, 4, queued(4)).event(0, 4, granted(4)).event(0, 5, ended.clone());
        assert_eq!(check(&alone.event(0, 6, queued(6)).event(0, 6, granted(6)).done()).checked, 0);
        let waited = Planted::new().event(0, 4, queued(4)).event(0, 4, granted(4)).event(0, 5, queued(5)).event(0, 6, ended);
        assert_eq!(check(&waited.event(0, 6, granted(5)).done()).checked, 1);
    }
}
