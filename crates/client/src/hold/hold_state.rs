//! What may change of a grant while it is held: its token, which an upgrade makes new, and up to when it may be held at most.
//!
//! All holds of one grant have the same terms: an upgrade through one of them is one of all.

use crate::wire::clock::{self, Moment, valid_until};
use fairhold_types::FencingToken;
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

/// The terms of a grant. Clones are the same terms.
#[derive(Debug, Clone)]
pub(crate) struct HoldState(Arc<watch::Sender<HoldFacts>>);

#[derive(Debug, Clone, Copy)]
struct HoldFacts {
    token: FencingToken,
    bound: Option<Bound>,
    /// From before an upgrade was asked for of which is not known what came of it.
    asked: Option<Moment>,
}

/// For how long it may be held, and so until when.
#[derive(Debug, Clone, Copy)]
struct Bound {
    max_hold: Duration,
    until: Moment,
}

impl Bound {
    fn new(max_hold: Duration, since: Moment) -> Bound {
        Bound { max_hold, until: valid_until(since, max_hold) }
    }
}

/// An upgrade that was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingUpgrade {
    before: FencingToken,
    since: Moment,
}

impl HoldState {
    /// Those of a grant; `bound` is how long it may be held, and since when that is counted.
    pub(crate) fn new(token: FencingToken, bound: Option<(Duration, Moment)>) -> HoldState {
        let bound = bound.map(|(max_hold, since)| Bound::new(max_hold, since));
        HoldState(Arc::new(watch::Sender::new(HoldFacts { token, bound, asked: None })))
    }

    /// The newest token that is known.
    pub(crate) fn token(&self) -> FencingToken {
        self.0.borrow().token
    }

    /// For how long it may be held from now on; nothing where that has no end.
    pub(crate) fn left(&self) -> Option<Duration> {
        let bound = self.0.borrow().bound;
        bound.map(|bound| Moment::now().until(bound.until))
    }

    /// Waits until it was held for as long as it may.
    pub(crate) async fn over(&self) {
        let left = || match self.left() {
            Some(Duration::ZERO) => Err(()),
            left => Ok(left.unwrap_or(Duration::MAX)),
        };
        clock::wait_for_end(self.0.subscribe(), left).await;
    }

    /// It was granted with that token, as somebody else than the caller of an upgrade hears: a newer one counts.
    pub(crate) fn granted(&self, token: FencingToken) {
        self.0.send_if_modified(|facts| {
            let is_newer = facts.token < token;
            facts.token = facts.token.max(token);
            is_newer
        });
    }

    /// An upgrade is about to be asked for. To be called before it is sent.
    pub(crate) fn ask(&self) -> PendingUpgrade {
        let mut asked = PendingUpgrade { before: self.token(), since: Moment::now() };
        self.0.send_modify(|facts| asked.since = *facts.asked.get_or_insert(asked.since));
        asked
    }

    /// The upgrade is acknowledged. With a new token, the time to hold is counted anew: from before it was asked for.
    pub(crate) fn upgraded(&self, asked: PendingUpgrade, token: FencingToken) {
        self.0.send_modify(|facts| {
            facts.asked = None;
            if token < facts.token {
                return;
            }
            facts.token = token;
            if let Some(bound) = facts.bound.filter(|_| asked.before < token) {
                let anew = Bound::new(bound.max_hold, asked.since);
                facts.bound = Some(Bound { until: anew.until.max(bound.until), ..anew });
            }
        });
    }

    /// The upgrade was refused, and nothing of it may still come about.
    pub(crate) fn refused(&self) {
        self.0.send_modify(|facts| facts.asked = None);
    }

    /// Whether this is surely the token of the grant: not where an upgrade may be making a new one.
    pub(crate) fn is_surely(&self, token: FencingToken) -> bool {
        let HoldFacts { token: known, asked, .. } = *self.0.borrow();
        known == token && asked.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_upgrade_counts_anew_from_before_it_was_asked_for_and_only_with_a_new_token() {
        let terms = HoldState::new(FencingToken(5), Some((60 * SECOND, Moment::now())));
        let before = terms.left().unwrap();
        let asked = terms.ask();
        assert!(!terms.is_surely(FencingToken(5)), "an upgrade may have made a new one");
        terms.upgraded(PendingUpgrade { since: asked.since.plus(SECOND), ..asked }, FencingToken(5));
        assert!(terms.left().unwrap() <= before && terms.is_surely(FencingToken(5)));

        let (first, again) = (terms.ask(), terms.ask());
        assert_eq!(first.since, again.since, "the first may be the one that came about");
        terms.granted(FencingToken(9));
        // As if it were asked for a second later.
        terms.upgraded(PendingUpgrade { since: again.since.plus(SECOND), ..again }, FencingToken(9));
        assert!(terms.left().unwrap() > before && terms.is_surely(FencingToken(9)));
        terms.granted(FencingToken(7));
        assert_eq!(terms.token(), FencingToken(9));
    }

    #[test]
    fn a_bound_is_over_less_its_margin_and_none_never_is() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (since, most) = (Moment::now(), SECOND - crate::margin(SECOND));
            let terms = HoldState::new(FencingToken(1), Some((SECOND, since)));
            // However late this test gets its turn: of what is left at a time, nothing lies behind the margin.
            let left = terms.left().unwrap();
            assert!(left > Duration::ZERO && left <= most, "{left:?}");
            terms.over().await;
            let after = since.until(Moment::now());
            assert!(after >= most && terms.left() == Some(Duration::ZERO), "it was over after {after:?}");
            let endless = HoldState::new(FencingToken(1), None);
            assert!(endless.left().is_none());
            assert!(futures_util::future::poll_immediate(endless.over()).await.is_none());
        });
    }
}
