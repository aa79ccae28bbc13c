//! What keeps a grant or a session alive, and knows until when it may be believed in.
//!
//! Whoever asks, gets the answer from this client's own clock: no network is needed to find that a lease is over, and one that
//! was found over never comes back, whatever is acknowledged later.

use crate::{
    backoff::jitter,
    calls::{Calls, Patience},
    clock::{self, Moment, margin, valid_until},
    error::{Error, Lost},
    exchange::Call,
};
use fairhold_types::{GrantId, SessionId};
use reqwest::Method;
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, time::Instant};

/// The part of the ttl after which a renewal is due.
const RENEWALS_PER_TTL: u32 = 3;
/// The least part of that time: renewals of many clients spread.
const JITTER_LEAST: f64 = 0.8;
/// The part of the ttl that one node gets to answer a renewal.
const TRIES_PER_TTL: u32 = 6;
/// The longest that one node gets.
const TRY_MAX: Duration = Duration::from_secs(3);

/// What is renewed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kept {
    Grant(GrantId),
    Session(SessionId),
}

impl Kept {
    /// The call that renews it. It needs no key: to repeat it is the same as to make it later.
    pub(crate) fn renewal(self) -> Call {
        let path = match self {
            Kept::Grant(id) => format!("/v1/grants/{id}/renew"),
            Kept::Session(id) => format!("/v1/sessions/{}/keepalive", id.to_hex()),
        };
        Call::new(Method::POST, path)
    }
}

/// Whether it may be believed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Belief {
    Until(Moment),
    Over(Lost),
}

/// A lease, as this client knows it. Clones are the same lease.
#[derive(Debug, Clone)]
pub(crate) struct Lease {
    ttl: Duration,
    belief: Arc<watch::Sender<Belief>>,
}

impl Lease {
    /// A lease whose keepalive was sent at that moment, and acknowledged.
    pub(crate) fn new(ttl: Duration, sent: Moment) -> Lease {
        Lease { ttl, belief: Arc::new(watch::Sender::new(Belief::Until(valid_until(sent, ttl)))) }
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Whether it may be believed in now.
    pub(crate) fn check(&self) -> Result<(), Lost> {
        self.left().map(|_| ())
    }

    /// For how long it may be believed in from now on.
    pub(crate) fn left(&self) -> Result<Duration, Lost> {
        let now = Moment::now();
        let believed = *self.belief.borrow();
        match believed {
            Belief::Over(lost) => Err(lost),
            Belief::Until(until) if now < until => Ok(now.until(until)),
            Belief::Until(_) => Err(self.end(Lost::CutOff)),
        }
    }

    /// A keepalive that was sent at that moment was acknowledged.
    pub(crate) fn proved(&self, sent: Moment) {
        let (now, proved) = (Moment::now(), valid_until(sent, self.ttl));
        self.belief.send_if_modified(|belief| match *belief {
            Belief::Until(until) if now < until && until < proved => {
                *belief = Belief::Until(proved);
                true
            }
            Belief::Until(until) if now >= until => {
                *belief = Belief::Over(Lost::CutOff);
                true
            }
            Belief::Until(_) | Belief::Over(_) => false,
        });
    }

    /// It is over; says how it ended, which is how it ended first.
    pub(crate) fn end(&self, lost: Lost) -> Lost {
        let mut ended = lost;
        self.belief.send_if_modified(|belief| match *belief {
            Belief::Until(_) => {
                *belief = Belief::Over(lost);
                true
            }
            Belief::Over(earlier) => {
                ended = earlier;
                false
            }
        });
        ended
    }

    /// Waits until it is over.
    pub(crate) async fn lost(&self) -> Lost {
        clock::wait_for_end(self.belief.subscribe(), || self.left()).await
    }

    /// How long one node gets to answer a renewal.
    pub(crate) fn try_max(&self) -> Duration {
        try_max(self.ttl)
    }

    /// Renews it until it is over. To be run as a task that is aborted before it is given back.
    pub(crate) async fn keep(self, kept: Kept, calls: Calls) {
        let call = kept.renewal();
        loop {
            let Ok(left) = self.left() else { return };
            // Counted from the last keepalive, which may be older than this task.
            let whole = self.ttl.saturating_sub(margin(self.ttl));
            let pause = left.saturating_sub(whole.saturating_sub(jitter(renewal_due(self.ttl), JITTER_LEAST)));
            let renewed = async {
                tokio::time::sleep(pause).await;
                self.renew(&call, &calls).await
            };
            tokio::select! {
                biased;
                lost = self.lost() => {
                    tracing::info!(%lost, "a lease is over");
                    return;
                }
                () = renewed => {}
            }
        }
    }

    /// Renews it once, over failures, for as long as it may be believed in.
    pub(crate) async fn renew(&self, call: &Call, calls: &Calls) {
        let Ok(left) = self.left() else { return };
        let patience = Patience { until: Instant::now() + left, each: self.try_max() };
        let answered = calls.send(call, patience).await;
        match answered.map(|reply| (reply.sent, reply.done())) {
            Ok((sent, Ok(()))) => self.proved(sent),
            Ok((_, Err(Error::Lost(lost)))) => drop(self.end(lost)),
            Ok((_, Err(refused))) => {
                tracing::warn!(error = %refused, "a renewal was refused");
                self.end(Lost::Expired);
            }
            Err(error) => tracing::warn!(%error, "a renewal got no answer"),
        }
    }
}

/// The part of a ttl that one node gets to answer a renewal.
pub(crate) fn try_max(ttl: Duration) -> Duration {
    (ttl / TRIES_PER_TTL).min(TRY_MAX)
}

/// When a renewal is due after the last one.
pub(crate) fn renewal_due(ttl: Duration) -> Duration {
    ttl / RENEWALS_PER_TTL
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(1);

    fn in_one_thread(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(test);
    }

    #[test]
    fn lost_fires_by_itself_without_a_network() {
        in_one_thread(async {
            let sent = Moment::now();
            let lease = Lease::new(TTL, sent);
            assert_eq!(lease.check(), Ok(()));
            assert_eq!(lease.lost().await, Lost::CutOff);
            let after = sent.until(Moment::now());
            assert!(after >= TTL - margin(TTL) && after < TTL, "it fired after {after:?}");
            assert_eq!(lease.check(), Err(Lost::CutOff));
        });
    }

    #[test]
    fn a_renewal_counts_from_before_it_was_sent_and_never_shortens() {
        let now = Moment::now();
        let lease = Lease::new(TTL, now);
        lease.proved(now.plus(TTL * 3));
        lease.proved(now);
        assert!(lease.left().unwrap() > TTL * 3);
    }

    #[test]
    fn what_was_found_over_does_not_come_back() {
        let lease = Lease::new(TTL, Moment::now());
        assert_eq!(lease.end(Lost::Broken), Lost::Broken);
        lease.proved(Moment::now().plus(TTL));
        assert_eq!((lease.check(), lease.end(Lost::Expired)), (Err(Lost::Broken), Lost::Broken));
        let long_ago = Moment::now();
        let over = Lease::new(Duration::ZERO, long_ago);
        // Acknowledged after its time, and before anybody looked.
        over.proved(Moment::now().plus(TTL));
        assert_eq!(over.check(), Err(Lost::CutOff));
    }

    #[test]
    fn all_who_wait_are_told_at_once() {
        in_one_thread(async {
            let lease = Lease::new(TTL * 60, Moment::now());
            let waiting: Vec<_> = (0..3)
                .map(|_| {
                    tokio::spawn({
                        let lease = lease.clone();
                        async move { lease.lost().await }
                    })
                })
                .collect();
            tokio::task::yield_now().await;
            lease.end(Lost::Broken);
            for told in waiting {
                assert_eq!(told.await.unwrap(), Lost::Broken);
            }
        });
    }
}
