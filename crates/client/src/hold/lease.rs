//! Leases: the renewals of a grant or a session, and how long the client may still rely on it.
//!
//! Only this client's own clock decides, so no network is needed to notice that a lease has ended. A lease that was
//! found over never comes back, whatever is acknowledged later.
//!
//! Only an answer that names the renewed grant or session, and says how long it lives, proves a renewal.

use crate::{
    error::{Error, Lost},
    wire::{
        backoff::jitter,
        call::{BatchPart, Call},
        clock::{self, Moment, margin, valid_until},
        reply::Reply,
        retry::{RetryBudget, Transport},
    },
};
use fairhold_types::{
    Code, GrantId, SessionId,
    dto::{RenewedGrant, RenewedSession},
    duration,
};
use reqwest::Method;
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, time::Instant};

/// The part of the ttl after which a renewal is due.
const RENEWALS_PER_TTL: u32 = 3;
/// The least part of that time: the rest is random, so that the renewals of many clients spread.
const JITTER_LEAST: f64 = 0.8;
/// The part of the ttl that one node has to answer a renewal.
const ATTEMPTS_PER_TTL: u32 = 6;
/// The longest time that one node has.
const ATTEMPT_MAX: Duration = Duration::from_secs(3);

/// What is renewed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RenewTarget {
    Grant(GrantId),
    Session(SessionId),
}

impl RenewTarget {
    /// The call that renews it. A repeated renewal is the same as a later one. Renewals of grants share batches.
    pub(crate) fn renewal(self) -> Call {
        match self {
            RenewTarget::Grant(id) => Call::new(Method::POST, format!("/v1/grants/{id}/renew")).key(id).part(BatchPart::Renew),
            RenewTarget::Session(id) => Call::new(Method::POST, format!("/v1/sessions/{}/keepalive", id.to_hex())),
        }
    }

    /// What an answer to that call proves, or why it proves nothing.
    pub(crate) fn proof(self, reply: &Reply) -> Result<RenewalProof, Error> {
        let (is_named, ttl, expires_in) = match self {
            RenewTarget::Grant(id) => {
                let renewed: RenewedGrant = reply.json()?;
                (renewed.id == id, renewed.ttl, renewed.expires_in)
            }
            RenewTarget::Session(id) => {
                let renewed: RenewedSession = reply.json()?;
                (renewed.id == id, renewed.ttl, renewed.expires_in)
            }
        };
        if !is_named {
            return Err(Error::NotUnderstood { why: "it names something other than what was renewed".to_owned() });
        }
        let parse = |text: &str| duration::parse(text).map_err(|error| Error::NotUnderstood { why: error.to_string() });
        Ok(RenewalProof { sent: reply.sent, ttl: parse(&ttl)?.min(parse(&expires_in)?) })
    }
}

/// An acknowledged keepalive. A later one compares as greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RenewalProof {
    /// Taken before it was sent.
    pub(crate) sent: Moment,
    /// How long the lease lives from then on, as the answer says.
    pub(crate) ttl: Duration,
}

/// Until when the client relies on the lease, and how often it renews it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LeaseState {
    until: Result<Moment, Lost>,
    /// Taken before sending the newest acknowledged keepalive.
    sent: Moment,
    /// The requested ttl, or less if that keepalive's answer says less.
    ttl: Duration,
}

/// A lease as this client knows it. Clones are the same lease.
#[derive(Debug, Clone)]
pub(crate) struct Lease {
    /// The requested ttl. The client never relies on the lease for longer.
    ttl_max: Duration,
    state: Arc<watch::Sender<LeaseState>>,
}

impl Lease {
    /// A lease that was requested with this ttl, and proved.
    pub(crate) fn new(ttl_max: Duration, proof: RenewalProof) -> Lease {
        let ttl = ttl_max.min(proof.ttl);
        let state = LeaseState { until: Ok(valid_until(proof.sent, ttl)), sent: proof.sent, ttl };
        Lease { ttl_max, state: Arc::new(watch::Sender::new(state)) }
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.state.borrow().ttl
    }

    /// Whether the lease still holds.
    pub(crate) fn check(&self) -> Result<(), Lost> {
        self.left().map(|_| ())
    }

    /// How long the lease still holds.
    pub(crate) fn left(&self) -> Result<Duration, Lost> {
        let now = Moment::now();
        let state = *self.state.borrow();
        let until = state.until?;
        if now < until { Ok(now.until(until)) } else { Err(self.end(Lost::CutOff)) }
    }

    /// Notes an acknowledged keepalive. The one that was sent last counts, even if it allows less time than earlier
    /// ones: another program may have changed the timeout.
    pub(crate) fn proved(&self, proof: RenewalProof) {
        let now = Moment::now();
        let ttl = self.ttl_max.min(proof.ttl);
        self.state.send_if_modified(|state| match state.until {
            Ok(until) if now >= until => {
                state.until = Err(Lost::CutOff);
                true
            }
            Ok(_) if state.sent < proof.sent => {
                *state = LeaseState { until: Ok(valid_until(proof.sent, ttl)), sent: proof.sent, ttl };
                true
            }
            Ok(_) | Err(_) => false,
        });
    }

    /// Ends the lease. Returns how it ended first.
    pub(crate) fn end(&self, lost: Lost) -> Lost {
        let mut ended = lost;
        self.state.send_if_modified(|state| match state.until {
            Ok(_) => {
                state.until = Err(lost);
                true
            }
            Err(earlier) => {
                ended = earlier;
                false
            }
        });
        ended
    }

    /// Waits until it is over.
    pub(crate) async fn lost(&self) -> Lost {
        clock::wait_for_end(self.state.subscribe(), || self.left()).await
    }

    /// How long one node has to answer a renewal.
    fn attempt_max(&self) -> Duration {
        attempt_max(self.ttl())
    }

    /// Renews the lease until it is over. Runs as a task, which must be aborted before the release.
    pub(crate) async fn keep(self, target: RenewTarget, calls: Transport) {
        // After an answer that proves nothing, the client waits a little before it renews again.
        let mut at_least = Duration::ZERO;
        loop {
            let Ok(left) = self.left() else { return };
            // Count from the last keepalive, which may be older than this task.
            let ttl = self.ttl();
            let whole = ttl.saturating_sub(margin(ttl));
            let pause = left.saturating_sub(whole.saturating_sub(jitter(renewal_due(ttl), JITTER_LEAST)));
            let renewed = async {
                tokio::time::sleep(pause.max(at_least)).await;
                self.renew(target, &calls).await
            };
            tokio::select! {
                biased;
                lost = self.lost() => {
                    tracing::info!(%lost, "a lease has ended");
                    return;
                }
                is_proved = renewed => at_least = if is_proved { Duration::ZERO } else { self.attempt_max() },
            }
        }
    }

    /// Renews the lease once, with retries for as long as it holds. Returns whether the renewal is proved.
    async fn renew(&self, target: RenewTarget, calls: &Transport) -> bool {
        let Ok(left) = self.left() else { return false };
        let budget = RetryBudget { until: Instant::now() + left, each: self.attempt_max() };
        let proof = calls.send(&target.renewal(), budget).await.and_then(|reply| target.proof(&reply));
        match proof {
            Ok(proof) => {
                self.proved(proof);
                return true;
            }
            Err(Error::Lost(lost)) => drop(self.end(lost)),
            Err(Error::Refused { code: Some(Code::GrantNotFound), .. }) => drop(self.end(Lost::Expired)),
            // The error says nothing about the lease.
            Err(error) => tracing::warn!(%error, "a renewal was not acknowledged"),
        }
        false
    }
}

/// How long one node has to answer a renewal.
pub(crate) fn attempt_max(ttl: Duration) -> Duration {
    (ttl / ATTEMPTS_PER_TTL).min(ATTEMPT_MAX)
}

/// The time from one renewal to the next.
pub(crate) fn renewal_due(ttl: Duration) -> Duration {
    ttl / RENEWALS_PER_TTL
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(1);

    fn proof(sent: Moment) -> RenewalProof {
        RenewalProof { sent, ttl: TTL }
    }

    fn in_one_thread(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(test);
    }

    #[test]
    fn lost_fires_without_a_network() {
        in_one_thread(async {
            let sent = Moment::now();
            let lease = Lease::new(TTL, proof(sent));
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
        let lease = Lease::new(TTL, proof(now));
        lease.proved(proof(now.plus(TTL * 3)));
        lease.proved(proof(now));
        assert!(lease.left().unwrap() > TTL * 3);
    }

    #[test]
    fn a_lease_holds_no_longer_than_the_newest_answer_says_nor_than_was_requested() {
        let now = Moment::now();
        let lease = Lease::new(60 * TTL, RenewalProof { sent: now, ttl: 60 * TTL });
        let later = |seconds: u32, ttl: Duration| RenewalProof { sent: now.plus(TTL * seconds), ttl };
        lease.proved(later(1, 10 * TTL));
        assert!(lease.left().unwrap() <= 11 * TTL && lease.ttl() == 10 * TTL, "{:?}", lease.left());
        // Sent before the timeout was lowered, answered after.
        lease.proved(later(0, 60 * TTL));
        assert!(lease.left().unwrap() <= 11 * TTL, "{:?}", lease.left());
        lease.proved(later(2, 600 * TTL));
        assert!(lease.left().unwrap() <= 62 * TTL && lease.ttl() == 60 * TTL, "{:?}", lease.left());
        assert!(Lease::new(60 * TTL, RenewalProof { sent: now, ttl: TTL }).left().unwrap() <= TTL);
    }

    fn reply(status: u16, body: &str) -> Reply {
        let status = reqwest::StatusCode::from_u16(status).unwrap();
        Reply { status, headers: Default::default(), body: body.into(), is_whole: true, sent: Moment::now(), may_be_done: false }
    }

    #[test]
    fn only_an_answer_that_names_the_lease_and_its_time_proves_a_renewal() {
        let (id, other) = ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAW");
        let (grant, session) = (RenewTarget::Grant(id.parse().unwrap()), RenewTarget::Session("0".repeat(32).parse().unwrap()));
        let body = |id: &str, ttl: &str, left: &str| {
            format!("{{\"id\":\"{id}\",\"ttl\":\"{ttl}\",\"expires_in\":\"{left}\",\"expires_at\":\"\"}}")
        };
        assert_eq!(grant.proof(&reply(200, &body(id, "30s", "30s"))).unwrap().ttl, 30 * TTL);
        assert_eq!(grant.proof(&reply(200, &body(id, "30s", "7s"))).unwrap().ttl, 7 * TTL);
        assert_eq!(session.proof(&reply(200, &body(&"0".repeat(32), "5s", "30s"))).unwrap().ttl, 5 * TTL);
        for wrong in [
            "<html>please log in</html>",
            "",
            "{}",
            "{\"expires_in\":\"30s\",\"expires_at\":\"\"}",
            &body(other, "30s", "30s"),
            &body(id, "soon", "30s"),
        ] {
            assert!(matches!(grant.proof(&reply(200, wrong)), Err(Error::NotUnderstood { .. })), "{wrong}");
            assert!(session.proof(&reply(200, wrong)).is_err(), "{wrong}");
        }
        let gone = grant.proof(&reply(410, r#"{"code":"grant_gone","detail":"d","reason":"broken"}"#));
        assert!(matches!(gone, Err(Error::Lost(Lost::Broken))), "{gone:?}");
    }

    #[test]
    fn an_expired_lease_never_becomes_valid_again() {
        let lease = Lease::new(TTL, proof(Moment::now()));
        assert_eq!(lease.end(Lost::Broken), Lost::Broken);
        lease.proved(proof(Moment::now().plus(TTL)));
        assert_eq!((lease.check(), lease.end(Lost::Expired)), (Err(Lost::Broken), Lost::Broken));
        let over = Lease::new(Duration::ZERO, proof(Moment::now()));
        // Acknowledged after its time, and before anything checked.
        over.proved(proof(Moment::now().plus(TTL)));
        assert_eq!(over.check(), Err(Lost::CutOff));
    }

    #[test]
    fn all_waiters_are_woken_at_once() {
        in_one_thread(async {
            let lease = Lease::new(TTL * 60, RenewalProof { sent: Moment::now(), ttl: TTL * 60 });
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
            for waiter in waiting {
                assert_eq!(waiter.await.unwrap(), Lost::Broken);
            }
        });
    }
}
