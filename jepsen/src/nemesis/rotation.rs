//! An operator replaces the certificates of all nodes while they run: first by others of the same authority, then by those
//! of a new one, which all nodes and clients trust beforehand, together with the old one. No node restarts.

use super::{Fault, Injected, POLL_EVERY, Skipped, Undo, World};
use crate::{certificates::Certificates, http::Request};
use std::time::{Duration, Instant};

/// How long a running node may take to use a new certificate: it looks at its files every 2 s.
const USED_WITHIN: Duration = Duration::from_secs(20);
/// What a node logs when it uses other files.
const USES_NEW: &str = "new connections use the new certificate";

/// A rotation that has begun: these machines have not got a certificate of the first new generation yet.
#[derive(Debug)]
pub(super) struct Rotation {
    left: Vec<usize>,
}

/// Without TLS there is nothing to rotate, and nothing to flood. The older program has no TLS.
pub(super) fn prepare(world: &mut World, faults: &[Fault]) {
    let is_secure = world.cluster.security.is_some();
    let (of, why) = if is_secure {
        (Fault::changes_program as fn(Fault) -> bool, "the older program has no TLS")
    } else {
        (Fault::needs_tls as fn(Fault) -> bool, "it needs --secure")
    };
    let impossible = faults.iter().copied().filter(|fault| of(*fault));
    world.not_covered.extend(impossible.map(|fault| (fault.name(), why.to_owned())));
}

/// Gives half of the nodes a new certificate of the same authority.
pub(super) async fn rotate_certs(world: &mut World) -> Injected {
    // A node that joins begins with what it finds.
    let mut machines = world.machines();
    let certificates = certificates(world).map_err(Skipped::NotHere)?;
    certificates.next_generation();
    let left = machines.split_off(machines.len().div_ceil(2));
    for machine in &machines {
        certificates.issue(*machine).map_err(Skipped::NotNow)?;
    }
    Ok((format!("new certificates for machines {machines:?} at first"), Undo::Rotation(Rotation { left })))
}

/// Completes the rotation. What does not work breaks a promise.
pub(super) async fn heal(world: &mut World, rotation: Rotation) -> Result<String, String> {
    let all = world.nodes();
    world.restart(&all).await;
    complete(world, rotation).await.inspect_err(|why| world.complaints.push(format!("certificates: {why}")))
}

async fn complete(world: &mut World, Rotation { left }: Rotation) -> Result<String, String> {
    let began = Instant::now();
    for machine in left {
        certificates(world)?.issue(machine)?;
        uses_newest(world, machine).await?;
    }
    for machine in world.machines() {
        uses_newest(world, machine).await?;
    }
    certificates(world)?.add_authority()?;
    trust(world, Certificates::newest_two_authorities).await?;
    certificates(world)?.next_generation();
    for machine in world.machines() {
        certificates(world)?.issue(machine)?;
        uses_newest(world, machine).await?;
    }
    trust(world, Certificates::newest_authority).await?;
    // These connections trust the new authority alone.
    for machine in world.nodes() {
        world.cluster.ready(machine, USED_WITHIN).await?;
    }
    Ok(format!("two generations of certificates, and a new authority, in {:.1?}", began.elapsed()))
}

/// Lets all nodes, one after the other, and then all clients trust these authorities.
async fn trust(world: &mut World, which: fn(&Certificates) -> Result<String, String>) -> Result<(), String> {
    let authorities = which(certificates(world)?)?;
    for machine in world.machines() {
        let before = news(world, machine);
        certificates(world)?.trust_at(machine, &authorities)?;
        let began = Instant::now();
        while world.cluster.node(machine).runs() && news(world, machine) == before {
            if began.elapsed() > USED_WITHIN {
                return Err(format!("node {machine} did not notice other authorities within {USED_WITHIN:?}"));
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
    }
    world.cluster.http.trust(&authorities)
}

/// How often a node has logged that it uses other files.
fn news(world: &mut World, machine: usize) -> usize {
    let log = std::fs::read(&world.cluster.node(machine).log).unwrap_or_default();
    String::from_utf8_lossy(&log).matches(USES_NEW).count()
}

/// Waits until the node of a machine, if there is one, uses the newest certificate for clients and for nodes.
async fn uses_newest(world: &mut World, machine: usize) -> Result<(), String> {
    let began = Instant::now();
    let request = Request::get("/metrics").within(Duration::from_secs(2), Duration::ZERO);
    let mut seen = String::new();
    while world.cluster.node(machine).runs() {
        let text = world.cluster.http.ask(machine, &request).await.text;
        let ends = ["clients", "nodes"].map(|port| not_after(&text, port));
        let certificates = certificates(world)?;
        if ends.iter().all(|end| end.is_some_and(|end| certificates.is_newest(end))) {
            return Ok(());
        }
        if began.elapsed() > USED_WITHIN {
            seen = format!("{ends:?}");
            break;
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
    // A node that has ended begins with the newest files.
    if seen.is_empty() {
        Ok(())
    } else {
        Err(format!("node {machine} did not use its certificate within {USED_WITHIN:?}: {seen}"))
    }
}

/// When the certificate of a port ends, by a node's metrics, in seconds since 1970.
fn not_after(metrics: &str, port: &str) -> Option<f64> {
    let begin = format!("fairhold_certificate_not_after_seconds{{port=\"{port}\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&begin))?.parse().ok()
}

fn certificates(world: &mut World) -> Result<&mut Certificates, String> {
    let security = world.cluster.security.as_mut().ok_or_else(|| "there are none".to_owned())?;
    Ok(&mut security.certificates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_certificate_is_found_by_port() {
        let metrics = "fairhold_certificate_not_after_seconds{port=\"clients\"} 1850000000\n\
                       fairhold_certificate_not_after_seconds{port=\"nodes\"} 1850000001.5\n";
        assert_eq!(not_after(metrics, "clients"), Some(1_850_000_000.0));
        assert_eq!(not_after(metrics, "nodes"), Some(1_850_000_001.5));
        assert_eq!(not_after(metrics, "other"), None);
    }
}
