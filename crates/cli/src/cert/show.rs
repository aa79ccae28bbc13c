//! What `fairhold cert show` prints.

use fairhold_trust::certificate::{AlternativeName, Certificate};
use fairhold_types::{duration::rounded, text::terminal_safe, time::WallMillis};
use serde_json::{Value, json};
use std::{path::Path, time::Duration};

/// A day in milliseconds.
const DAY: u64 = 86_400_000;

/// The certificates of a file, for people or as JSON.
pub(super) fn text(file: &Path, certificates: &[Certificate], json: bool, now: WallMillis) -> String {
    if json {
        let certificates: Vec<Value> = certificates.iter().map(|certificate| as_json(certificate, now)).collect();
        return format!("{}\n", json!({ "file": file.to_string_lossy(), "certificates": certificates }));
    }
    let texts: Vec<String> = certificates.iter().map(|certificate| for_people(certificate, now)).collect();
    texts.join("\n")
}

fn as_json(certificate: &Certificate, now: WallMillis) -> Value {
    json!({
        "holder": certificate.holder(),
        "names": certificate.fairhold_names().map(|name| name.to_string()).collect::<Vec<_>>(),
        "hosts": certificate.hosts(),
        "subject": certificate.subject,
        "issuer": certificate.issuer,
        "serial": certificate.serial,
        "not_before": certificate.not_before.to_rfc3339(),
        "not_after": certificate.not_after.to_rfc3339(),
        "valid": is_valid(certificate, now),
        "authority": certificate.is_authority,
        "servers": certificate.for_servers,
        "clients": certificate.for_clients,
        "key": certificate.key.to_string(),
        "sha256": certificate.sha256,
    })
}

fn for_people(certificate: &Certificate, now: WallMillis) -> String {
    let or_none = |list: Vec<String>| if list.is_empty() { "none".to_owned() } else { list.join(", ") };
    let names = certificate.fairhold_names().map(|name| name.to_string()).collect();
    let uris = certificate.names.iter().filter_map(|name| match name {
        AlternativeName::Uri(uri) => Some(uri),
        AlternativeName::Host(_) | AlternativeName::Address(_) | AlternativeName::Other(_) => None,
    });
    let other: Vec<String> =
        uris.filter(|uri| certificate.fairhold_names().all(|name| name.to_string() != **uri)).cloned().collect();
    let mut lines = vec![
        ("name", or_none(names)),
        ("hosts", or_none(certificate.hosts())),
        ("valid", format!("{} to {}", certificate.not_before.to_rfc3339(), certificate.not_after.to_rfc3339())),
        ("", remaining(certificate, now)),
        ("for", purposes(certificate)),
        ("key", certificate.key.to_string()),
        ("subject", certificate.subject.clone()),
        ("issuer", certificate.issuer.clone()),
        ("serial", certificate.serial.clone()),
        ("sha256", certificate.sha256.clone()),
    ];
    if !other.is_empty() {
        lines.insert(1, ("other URIs", other.join(", ")));
    }
    // The text of a certificate is its maker's choice.
    lines.into_iter().map(|(name, value)| format!("{name:<11} {}\n", terminal_safe(&value))).collect()
}

fn is_valid(certificate: &Certificate, now: WallMillis) -> bool {
    (certificate.not_before..=certificate.not_after).contains(&now)
}

fn remaining(certificate: &Certificate, now: WallMillis) -> String {
    let span = |millis: u64| match millis / DAY {
        0 => rounded(Duration::from_millis(millis)),
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    };
    if now < certificate.not_before {
        format!("not valid yet: it begins in {}", span(certificate.not_before.0 - now.0))
    } else if now > certificate.not_after {
        format!("expired {} ago: renew it", span(now.0 - certificate.not_after.0))
    } else {
        format!("expires in {}", span(certificate.not_after.0 - now.0))
    }
}

fn purposes(certificate: &Certificate) -> String {
    let all = [
        (certificate.is_authority, "issuing certificates"),
        (!certificate.is_authority && certificate.for_servers, "servers"),
        (!certificate.is_authority && certificate.for_clients, "clients"),
    ];
    let named: Vec<&str> = all.iter().filter(|(has, _)| *has).map(|(_, what)| *what).collect();
    if named.is_empty() { "nothing that Fairhold uses".to_owned() } else { named.join(" and ") }
}
