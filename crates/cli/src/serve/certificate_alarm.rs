//! The end of this node's certificates: what `/readyz?verbose` and `/metrics` say about it, and the warnings before it. And
//! the files of the providers of JWTs, if they cannot be used.
//!
//! A certificate is to be renewed 30 days before its end, and urgently 7 days before it. One with a short life is to be
//! renewed in the last third of it, and urgently in the last tenth.

use fairhold_metrics::{Registry, collect};
use fairhold_node::{Node, node::Concern};
use fairhold_trust::{jwt::JwtProviders, live_pair::LivePair};
use fairhold_types::{
    dto::{CertificateStatus, CertificateUrgency},
    time::WallMillis,
};
use futures_util::future::{pending, select_all};
use openraft_rt_tokio::TokioRuntime;
use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::time::sleep;

/// How often a node checks when its certificates end. It checks a new one at once.
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// How long before its end a certificate is to be renewed, in milliseconds.
const SOON: u64 = 30 * DAY;
/// From which part of its life on, at the latest.
const SOON_PART: u64 = 3;
/// The same, urgently.
const URGENT: u64 = 7 * DAY;
const URGENT_PART: u64 = 10;
const DAY: u64 = 24 * 3_600 * 1_000;

/// What a certificate of a node is for, as metrics and answers call it.
pub(super) const PORTS: [&str; 2] = ["clients", "nodes"];

/// The certificates of a node, by what they are for.
#[derive(Debug, Clone, Default)]
pub(super) struct OwnCertificates(Vec<(&'static str, Arc<LivePair>)>);

impl OwnCertificates {
    /// The certificates for each of `PORTS`, if the node has one.
    pub(super) fn new(clients: Option<&Arc<LivePair>>, nodes: Option<&Arc<LivePair>>) -> OwnCertificates {
        let pairs = PORTS.into_iter().zip([clients, nodes]);
        OwnCertificates(pairs.filter_map(|(port, pair)| Some((port, pair?.clone()))).collect())
    }

    /// What they say now.
    pub(super) fn statuses(&self) -> Vec<CertificateStatus> {
        let now = now();
        let status = |(port, pair): &(&str, Arc<LivePair>)| {
            let current = pair.current();
            CertificateStatus {
                port: (*port).to_owned(),
                urgency: urgency(current.certificate().not_before, current.not_after(), now),
                not_after: current.not_after().to_rfc3339(),
                fault: pair.rejection(),
            }
        };
        self.0.iter().map(status).collect()
    }

    /// Waits until one of them is replaced. Without certificates, it waits forever.
    async fn replaced(&self) {
        let replaced: Vec<_> = self.0.iter().map(|(_, pair)| Box::pin(pair.replaced())).collect();
        if replaced.is_empty() { pending().await } else { drop(select_all(replaced).await) }
    }

    /// Registers the metric of their ends.
    pub(super) fn register_metrics(&self, registry: &mut Registry) {
        let own = self.clone();
        collect(registry, move |scrape| {
            let end = |pair: &Arc<LivePair>| pair.current().not_after().0 / 1_000;
            let pair = |port: &str| own.0.iter().find(|(known, _)| *known == port).map(|(_, pair)| end(pair));
            let ends = PORTS.map(|port| (port.to_owned(), pair(port).unwrap_or_default()));
            let help = "When the certificate expires, in seconds since 1970; 0: there is none";
            scrape.gauges("certificate_not_after_seconds", help, "port", ends)
        });
    }
}

/// Warns while a certificate is to be renewed, or while its files or those of a provider of JWTs cannot be used.
pub(super) async fn watch(own: OwnCertificates, providers: JwtProviders, node: Node<TokioRuntime>) {
    let mut known = None;
    loop {
        let statuses = own.statuses();
        let warnings: Vec<String> = statuses.iter().filter_map(warning).chain(key_warnings(&providers)).collect();
        let warning = (!warnings.is_empty()).then(|| warnings.join(". "));
        if warning != known {
            let is_urgent = statuses.iter().any(|status| status.urgency >= CertificateUrgency::RenewNow);
            match &warning {
                Some(text) if is_urgent => tracing::error!("{text}"),
                Some(text) => tracing::warn!("{text}"),
                None => tracing::info!("the certificates and keys of this node are in order again"),
            }
            node.warn(Concern::Certificate, warning.clone());
            known = warning;
        }
        tokio::select! {
            biased;
            () = own.replaced() => {}
            () = sleep(CHECK_EVERY) => {}
        }
    }
}

/// What to say about the keys of providers of JWTs that need attention.
fn key_warnings(providers: &JwtProviders) -> impl Iterator<Item = String> + use<> {
    providers.key_sets().into_iter().filter_map(|keys| {
        let (provider, fault) = (keys.provider(), keys.rejection()?);
        Some(format!("the keys for the JWTs of {provider} cannot be read again, and the last ones that worked stay: {fault}"))
    })
}

/// What to say about a certificate that needs attention.
fn warning(status: &CertificateStatus) -> Option<String> {
    let CertificateStatus { port, urgency, not_after, fault } = status;
    let renew = "renew it on the machine with the authority (`fairhold cert renew --ca DIR FILE`); the node takes the new file \
                 by itself";
    match (urgency, fault) {
        (CertificateUrgency::Valid, None) => None,
        (CertificateUrgency::Valid, Some(fault)) => {
            Some(format!("the files of the certificate for {port} cannot be used, and the last one that worked stays: {fault}"))
        }
        (CertificateUrgency::Expired, _) => Some(format!("the certificate for {port} has expired at {not_after}: {renew}")),
        (CertificateUrgency::RenewSoon | CertificateUrgency::RenewNow, None) => {
            Some(format!("the certificate for {port} expires at {not_after}: {renew}"))
        }
        (CertificateUrgency::RenewSoon | CertificateUrgency::RenewNow, Some(fault)) => {
            Some(format!("the certificate for {port} expires at {not_after}, and its files cannot be used: {fault}"))
        }
    }
}

/// The last second in milliseconds. A certificate is valid through the second in which it ends (RFC 5280, section
/// 4.1.2.5): clients accept it until then.
const LAST_SECOND: u64 = 1_000;

/// How urgently a certificate with this life is to be renewed.
fn urgency(WallMillis(from): WallMillis, WallMillis(end): WallMillis, WallMillis(now): WallMillis) -> CertificateUrgency {
    let (life, left) = (end.saturating_sub(from), end.saturating_sub(now));
    match () {
        () if now >= end.saturating_add(LAST_SECOND) => CertificateUrgency::Expired,
        () if left < URGENT.min(life / URGENT_PART) => CertificateUrgency::RenewNow,
        () if left < SOON.min(life / SOON_PART) => CertificateUrgency::RenewSoon,
        () => CertificateUrgency::Valid,
    }
}

fn now() -> WallMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallMillis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_trust::{
        authority_for_tests::{TestAuthority, Wanted, write},
        jwt_for_tests::{self, TestIssuer},
        pair::PairUse,
    };
    use futures_util::FutureExt as _;

    #[test]
    fn a_certificate_is_to_be_renewed_30_and_7_days_before_its_end_or_late_in_a_short_life() {
        let at = |life: u64, left: u64| urgency(WallMillis(DAY), WallMillis(DAY + life), WallMillis(DAY + life - left));
        let (hour, year) = (DAY / 24, 365 * DAY);
        for (life, left, expected) in [
            (year, 31 * DAY, CertificateUrgency::Valid),
            (year, 30 * DAY - 1, CertificateUrgency::RenewSoon),
            (year, 7 * DAY, CertificateUrgency::RenewSoon),
            (year, 7 * DAY - 1, CertificateUrgency::RenewNow),
            (year, 0, CertificateUrgency::RenewNow),
            (DAY, 9 * hour, CertificateUrgency::Valid),
            (DAY, 7 * hour, CertificateUrgency::RenewSoon),
            (DAY, 2 * hour, CertificateUrgency::RenewNow),
        ] {
            assert_eq!(at(life, left), expected, "{life} {left}");
        }
        for (after, expected) in [
            (LAST_SECOND - 1, CertificateUrgency::RenewNow),
            (LAST_SECOND, CertificateUrgency::Expired),
            (year, CertificateUrgency::Expired),
        ] {
            assert_eq!(urgency(WallMillis(0), WallMillis(DAY), WallMillis(DAY + after)), expected, "{after} ms after its end");
        }
    }

    #[test]
    fn a_certificate_near_its_end_and_one_whose_files_are_damaged_are_reported() {
        let (folder, authority) = (tempfile::tempdir().unwrap(), TestAuthority::new());
        let pair = |days| {
            let files = write(folder.path(), &authority.issue(&Wanted { days, ..Wanted::node_2() }), authority.cert());
            LivePair::load(files, PairUse::ClientPort).unwrap()
        };
        let (old, new) = (pair((-90, 5)), pair((-1, 300)));
        let own = OwnCertificates::new(Some(&old), Some(&new));
        let [clients, nodes] = <[CertificateStatus; 2]>::try_from(own.statuses()).unwrap();
        assert_eq!((clients.port.as_str(), clients.urgency), ("clients", CertificateUrgency::RenewNow));
        assert_eq!((nodes.port.as_str(), nodes.urgency, nodes.fault.as_deref()), ("nodes", CertificateUrgency::Valid, None));
        let text = warning(&clients).unwrap();
        assert!(text.contains("the certificate for clients expires at ") && text.contains("cert renew --ca DIR FILE"), "{text}");
        assert_eq!(warning(&nodes), None);

        std::fs::write(folder.path().join("node.crt"), "not a certificate").unwrap();
        new.check();
        let text = warning(&own.statuses()[1]).unwrap();
        assert!(text.contains("for nodes cannot be used") && text.contains("node.crt"), "{text}");
    }

    #[test]
    fn a_certificate_is_checked_when_it_is_replaced() {
        let (folder, authority) = (tempfile::tempdir().unwrap(), TestAuthority::new());
        let issue = |days| write(folder.path(), &authority.issue(&Wanted { days, ..Wanted::node_2() }), authority.cert());
        let pair = LivePair::load(issue((-90, 5)), PairUse::ClientPort).unwrap();
        let own = OwnCertificates::new(Some(&pair), None);
        assert!(warning(&own.statuses()[0]).is_some());
        assert_eq!(own.replaced().now_or_never(), None);
        issue((-1, 300));
        pair.check();
        assert_eq!(own.replaced().now_or_never(), Some(()));
        assert_eq!(warning(&own.statuses()[0]), None);
        assert_eq!((own.replaced().now_or_never(), OwnCertificates::default().replaced().now_or_never()), (None, None));
    }

    #[test]
    fn keys_of_a_provider_that_cannot_be_read_again_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let providers = jwt_for_tests::provider(folder.path(), &[&TestIssuer::new("ES256", "1")]);
        assert_eq!(key_warnings(&providers).count(), 0);
        std::fs::write(folder.path().join("jwks.json"), "{").unwrap();
        providers.key_sets().iter().for_each(|keys| drop(keys.check()));
        let warnings: Vec<String> = key_warnings(&providers).collect();
        assert!(matches!(&*warnings, [text] if text.contains("JWTs of idp") && text.contains("jwks.json")), "{warnings:?}");
    }

    #[test]
    fn a_node_without_certificates_has_a_metric_and_nothing_to_report() {
        let mut registry = fairhold_metrics::registry();
        OwnCertificates::default().register_metrics(&mut registry);
        assert_eq!(OwnCertificates::default().statuses(), []);
        let text = fairhold_metrics::text(&registry, fairhold_metrics::Format::Plain).unwrap();
        assert!(text.contains("fairhold_certificate_not_after_seconds{port=\"clients\"} 0\n"), "{text}");
    }
}
