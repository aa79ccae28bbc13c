//! Rules about what protects the ports of a node.

use crate::{
    answer::ProbedNode,
    finding::{Finding, fail, ok, warn},
    text::RENEW,
};
use fairhold_types::{
    NodeId,
    dto::{CertificateStatus, CertificateUrgency},
};

/// Whether other machines can reach a port of a node that is not protected.
pub(super) fn exposed(id: NodeId, answer: &ProbedNode) -> Option<Finding> {
    let exposures = &answer.cluster.insecure;
    if exposures.is_empty() {
        return None;
    }
    let what: Vec<&str> = exposures.iter().map(|exposure| meaning(exposure)).collect();
    Some(warn(
        "insecure",
        format!("node {id} runs with --insecure: {}", what.join(", ")),
        "give it certificates (fairhold cert; --cert for clients, --peer-ca for nodes), then start it without --insecure",
    ))
}

/// A newer node may name something that this program does not know.
fn meaning(exposure: &str) -> &str {
    match exposure {
        "plain_clients" => "clients use plain text",
        "plain_peers" => "connections between nodes have no TLS",
        "open_peers" => "other nodes need not authenticate",
        other => other,
    }
}

/// Whether the audit log of a node is complete.
pub(super) fn audit(id: NodeId, answer: &ProbedNode) -> Option<Finding> {
    const CHECK: &str = "audit";
    let status = answer.readiness.as_ref()?.host.audit.as_ref()?;
    let lost = match status.entries_lost {
        0 => String::new(),
        lost => format!("; it has lost {lost} entries since its start"),
    };
    Some(match &status.fault {
        Some(fault) => fail(
            CHECK,
            format!("node {id} cannot write its audit log: {fault}{lost}"),
            "free space on its disk, or repair the folder: the node then resumes writing by itself",
        ),
        None if status.entries_lost > 0 => warn(
            CHECK,
            format!("node {id} writes its audit log{lost}"),
            "look for the reason in its log, and give the audit log a faster disk or more space",
        ),
        None => ok(CHECK, format!("node {id} writes its audit log")),
    })
}

/// Whether the certificates of a node are to be renewed.
pub(super) fn certificates(id: NodeId, answer: &ProbedNode) -> Vec<Finding> {
    let certificates = answer.readiness.as_ref().map_or(&[][..], |readiness| &readiness.host.certificates);
    certificates.iter().map(|certificate| expiry(id, certificate)).collect()
}

fn expiry(id: NodeId, certificate: &CertificateStatus) -> Finding {
    const CHECK: &str = "certificate";
    let CertificateStatus { port, urgency, not_after, fault, .. } = certificate;
    let seen = format!("node {id}'s certificate for {port} is valid until {not_after}");
    if let Some(fault) = fault {
        return fail(CHECK, format!("{seen}, and the files for the next one cannot be used: {fault}"), "correct the files");
    }
    match urgency {
        CertificateUrgency::Valid => ok(CHECK, seen),
        CertificateUrgency::RenewSoon => warn(CHECK, seen, RENEW),
        CertificateUrgency::RenewNow | CertificateUrgency::Expired => fail(CHECK, seen, RENEW),
    }
}
