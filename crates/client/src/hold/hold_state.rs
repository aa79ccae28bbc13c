//! What can change while a lock is held: its token, which an upgrade replaces, and how long it may be held.
//!
//! All holds of one grant share this state: an upgrade through one of them applies to all.

use crate::wire::clock::{self, Moment, valid_until};
use fairhold_types::FencingToken;
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

/// The token and the deadline of a grant. Clones share one state.
#[derive(Debug, Clone)]
pub(crate) struct HoldState(Arc<watch::Sender<HoldFacts>>);

#[derive(Debug, Clone, Copy)]
struct HoldFacts {
    token: FencingToken,
    bound: Option<Bound>,
    /// Taken before sending an upgrade whose outcome is unknown.
    upgrade_sent: Option<Moment>,
}

/// How long the grant may be held, and so until when.
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

/// An upgrade whose outcome is unknown yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingUpgrade {
    token_before: FencingToken,
    sent: Moment,
}

impl HoldState {
    /// The state of a grant. `bound` is how long it may be held, and since when.
    pub(crate) fn new(token: FencingToken, bound: Option<(Duration, Moment)>) -> HoldState {
        let bound = bound.map(|(max_hold, since)| Bound::new(max_hold, since));
        HoldState(Arc::new(watch::Sender::new(HoldFacts { token, bound, upgrade_sent: None })))
    }

    /// The newest token that the client knows.
    pub(crate) fn token(&self) -> FencingToken {
        self.0.borrow().token
    }

    /// How long it may still be held; `None` if there is no bound.
    pub(crate) fn left(&self) -> Option<Duration> {
        let bound = self.0.borrow().bound;
        bound.map(|bound| Moment::now().until(bound.until))
    }

    /// Waits until it has been held as long as it may be.
    pub(crate) async fn expired(&self) {
        let left = || match self.left() {
            Some(Duration::ZERO) => Err(()),
            left => Ok(left.unwrap_or(Duration::MAX)),
        };
        clock::wait_for_end(self.0.subscribe(), left).await;
    }

    /// Notes a token that a watch reported. The newest token counts.
    pub(crate) fn granted(&self, token: FencingToken) {
        self.0.send_if_modified(|facts| {
            let is_newer = facts.token < token;
            facts.token = facts.token.max(token);
            is_newer
        });
    }

    /// Notes an upgrade. Call this before sending it.
    pub(crate) fn start_upgrade(&self) -> PendingUpgrade {
        let mut pending = PendingUpgrade { token_before: self.token(), sent: Moment::now() };
        self.0.send_modify(|facts| pending.sent = *facts.upgrade_sent.get_or_insert(pending.sent));
        pending
    }

    /// Notes the success of an upgrade. If the token is new, the time to hold restarts, counted from before the upgrade
    /// was sent.
    pub(crate) fn upgraded(&self, pending: PendingUpgrade, token: FencingToken) {
        self.0.send_modify(|facts| {
            facts.upgrade_sent = None;
            if token < facts.token {
                return;
            }
            facts.token = token;
            if let Some(bound) = facts.bound.filter(|_| pending.token_before < token) {
                let restarted = Bound::new(bound.max_hold, pending.sent);
                facts.bound = Some(Bound { until: restarted.until.max(bound.until), ..restarted });
            }
        });
    }

    /// Notes that the upgrade was refused and can no longer take effect.
    pub(crate) fn upgrade_refused(&self) {
        self.0.send_modify(|facts| facts.upgrade_sent = None);
    }

    /// Whether this is the grant's token for certain. While an upgrade may be replacing it, it is not.
    pub(crate) fn is_certainly(&self, token: FencingToken) -> bool {
        let HoldFacts { token: known, upgrade_sent, .. } = *self.0.borrow();
        known == token && upgrade_sent.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_upgrade_with_a_new_token_restarts_the_bound_from_before_it_was_sent() {
        let state = HoldState::new(FencingToken(5), Some((60 * SECOND, Moment::now())));
        let before = state.left().unwrap();
        let pending = state.start_upgrade();
        assert!(!state.is_certainly(FencingToken(5)), "an upgrade may have replaced it");
        state.upgraded(PendingUpgrade { sent: pending.sent.plus(SECOND), ..pending }, FencingToken(5));
        assert!(state.left().unwrap() <= before && state.is_certainly(FencingToken(5)));

        let (first, again) = (state.start_upgrade(), state.start_upgrade());
        assert_eq!(first.sent, again.sent, "the first one may be the one that succeeds");
        state.granted(FencingToken(9));
        // As if it had been sent a second later.
        state.upgraded(PendingUpgrade { sent: again.sent.plus(SECOND), ..again }, FencingToken(9));
        assert!(state.left().unwrap() > before && state.is_certainly(FencingToken(9)));
        state.granted(FencingToken(7));
        assert_eq!(state.token(), FencingToken(9));
    }

    #[test]
    fn a_bound_ends_before_its_margin_and_no_bound_never_ends() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (since, max) = (Moment::now(), SECOND - crate::margin(SECOND));
            let state = HoldState::new(FencingToken(1), Some((SECOND, since)));
            // This holds however late the test gets to run: the time left never includes the margin.
            let left = state.left().unwrap();
            assert!(left > Duration::ZERO && left <= max, "{left:?}");
            state.expired().await;
            let after = since.until(Moment::now());
            assert!(after >= max && state.left() == Some(Duration::ZERO), "it expired after {after:?}");
            let endless = HoldState::new(FencingToken(1), None);
            assert!(endless.left().is_none());
            assert!(futures_util::future::poll_immediate(endless.expired()).await.is_none());
        });
    }
}
