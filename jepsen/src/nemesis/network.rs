//! Faults of the network: who does not reach whom, and what happens to packets on their way.

use super::{Fault, Skipped, Undo, World};
use crate::net::{CLIENTS, Link, Overlay};
use std::time::Duration;

const DELAY_US: u64 = 40_000;
const REORDER_US: u64 = 20_000;
const LOSS_PERMILLE: u32 = 100;
const TWICE_PERMILLE: u32 = 333;
/// How long a node that flaps is cut off, and how long it is back.
const FLAP_EVERY: Duration = Duration::from_millis(150);

pub(super) async fn inject(world: &mut World, fault: Fault) -> Result<(String, Undo), Skipped> {
    let nodes = world.nodes();
    let everybody: Vec<usize> = std::iter::once(CLIENTS).chain(nodes.iter().copied()).collect();
    let without = |id: usize| nodes.iter().copied().filter(|other| *other != id).collect::<Vec<_>>();
    let (detail, overlay) = match fault {
        Fault::CutLeader => {
            let leader = world.leader().await?;
            (format!("node {leader}"), Overlay::both_ways(&[leader], &without(leader), Link::CUT))
        }
        Fault::IsolateLeader => {
            let leader = world.leader().await?;
            (format!("node {leader}"), Overlay::both_ways(&[leader], &everybody, Link::CUT))
        }
        Fault::CutFollower => {
            let follower = world.follower().await?;
            (format!("node {follower}"), Overlay::both_ways(&[follower], &without(follower), Link::CUT))
        }
        Fault::SplitAll => ("all from one another".to_owned(), Overlay::both_ways(&nodes, &nodes, Link::CUT)),
        Fault::OneWayOut => {
            let leader = world.leader().await?;
            (format!("from node {leader}"), Overlay::one_way(&[leader], &without(leader), Link::CUT))
        }
        Fault::OneWayIn => {
            let leader = world.leader().await?;
            (format!("to node {leader}"), Overlay::one_way(&without(leader), &[leader], Link::CUT))
        }
        Fault::Bridge => bridge(world).await?,
        Fault::Flapping => return flapping(world).await,
        Fault::LostAnswers => {
            let lost = Link { data_lost: true, ..Link::default() };
            ("to all clients".to_owned(), Overlay::one_way(&nodes, &[CLIENTS], lost))
        }
        Fault::Delay => {
            let slow = Link { delay_us: DELAY_US, ..Link::default() };
            ("between all nodes".to_owned(), Overlay::both_ways(&nodes, &nodes, slow))
        }
        Fault::Loss => {
            let lossy = Link { loss_permille: LOSS_PERMILLE, ..Link::default() };
            ("everywhere".to_owned(), Overlay::both_ways(&everybody, &everybody, lossy))
        }
        Fault::Reorder => {
            let unordered = Link { jitter_us: REORDER_US, ..Link::default() };
            ("everywhere".to_owned(), Overlay::both_ways(&everybody, &everybody, unordered))
        }
        Fault::Duplicate => {
            let twice = Link { twice_permille: TWICE_PERMILLE, ..Link::default() };
            ("everywhere".to_owned(), Overlay::both_ways(&everybody, &everybody, twice))
        }
        other => return Err(Skipped::NotHere(format!("{} is not a fault of the network", other.name()))),
    };
    let touched = world.network.switch.touched();
    Ok((detail, Undo::Lift { overlay: world.network.switch.lay(overlay), touched }))
}

/// A follower is the only one that sees all: the others are in two parts that do not see each other.
async fn bridge(world: &mut World) -> Result<(String, Overlay), Skipped> {
    let middle = world.follower().await?;
    let others: Vec<usize> = world.nodes().into_iter().filter(|id| *id != middle).collect();
    let (a, b) = others.split_at(others.len() / 2);
    Ok((format!("over node {middle}"), Overlay::both_ways(a, b, Link::CUT)))
}

async fn flapping(world: &mut World) -> Result<(String, Undo), Skipped> {
    use rand::RngExt;
    let nodes = world.nodes();
    let id = nodes[world.random.random_range(0..nodes.len())];
    let others: Vec<usize> = nodes.into_iter().filter(|other| *other != id).collect();
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let switch = world.network.switch.remote();
    let task = tokio::spawn(async move {
        let before = switch.touched();
        let mut off = None;
        while tokio::time::timeout(FLAP_EVERY, &mut stopped).await.is_err() {
            off = match off {
                Some(overlay) => {
                    switch.lift(overlay);
                    None
                }
                None => Some(switch.lay(Overlay::both_ways(&[id], &others, Link::CUT))),
            };
        }
        if let Some(overlay) = off {
            switch.lift(overlay);
        }
        switch.touched() - before
    });
    Ok((format!("node {id}"), Undo::Stop(task, stop)))
}
