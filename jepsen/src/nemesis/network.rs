//! Faults of the network: cut links, and delayed, lost, reordered and duplicated packets.

use super::{Injected, Undo, World};
use crate::net::{CLIENTS, Link, Overlay};
use rand::RngExt;
use std::time::Duration;

const DELAY_US: u64 = 40_000;
const REORDER_US: u64 = 20_000;
const LOSS_PERMILLE: u32 = 100;
const TWICE_PERMILLE: u32 = 333;
/// How long a flapping node is cut off, and how long it is connected.
const FLAP_EVERY: Duration = Duration::from_millis(150);

fn lay(world: &World, detail: String, overlay: Overlay) -> Injected {
    let touched = world.network.switch.touched();
    Ok((detail, Undo::Lift { overlay: world.network.switch.lay(overlay), touched }))
}

fn others(world: &World, id: usize) -> Vec<usize> {
    world.nodes().into_iter().filter(|other| *other != id).collect()
}

fn everybody(world: &World) -> Vec<usize> {
    std::iter::once(CLIENTS).chain(world.nodes()).collect()
}

/// The same fault between all places, including the clients.
fn everywhere(world: &World, link: Link) -> Injected {
    let all = everybody(world);
    lay(world, "everywhere".to_owned(), Overlay::both_ways(&all, &all, link))
}

pub(super) async fn cut_leader(world: &mut World) -> Injected {
    let leader = world.leader().await?;
    lay(world, format!("node {leader}"), Overlay::both_ways(&[leader], &others(world, leader), Link::CUT))
}

pub(super) async fn isolate_leader(world: &mut World) -> Injected {
    let leader = world.leader().await?;
    lay(world, format!("node {leader}"), Overlay::both_ways(&[leader], &everybody(world), Link::CUT))
}

pub(super) async fn cut_follower(world: &mut World) -> Injected {
    let follower = world.follower().await?;
    lay(world, format!("node {follower}"), Overlay::both_ways(&[follower], &others(world, follower), Link::CUT))
}

pub(super) fn split_all(world: &World) -> Injected {
    lay(world, "all from each other".to_owned(), Overlay::both_ways(&world.nodes(), &world.nodes(), Link::CUT))
}

pub(super) async fn one_way_out(world: &mut World) -> Injected {
    let leader = world.leader().await?;
    lay(world, format!("from node {leader}"), Overlay::one_way(&[leader], &others(world, leader), Link::CUT))
}

pub(super) async fn one_way_in(world: &mut World) -> Injected {
    let leader = world.leader().await?;
    lay(world, format!("to node {leader}"), Overlay::one_way(&others(world, leader), &[leader], Link::CUT))
}

pub(super) fn lost_answers(world: &World) -> Injected {
    let lost = Link { data_lost: true, ..Link::default() };
    lay(world, "to all clients".to_owned(), Overlay::one_way(&world.nodes(), &[CLIENTS], lost))
}

pub(super) fn delay(world: &World) -> Injected {
    let slow = Link { delay_us: DELAY_US, ..Link::default() };
    lay(world, "between all nodes".to_owned(), Overlay::both_ways(&world.nodes(), &world.nodes(), slow))
}

pub(super) fn loss(world: &World) -> Injected {
    everywhere(world, Link { loss_permille: LOSS_PERMILLE, ..Link::default() })
}

pub(super) fn reorder(world: &World) -> Injected {
    everywhere(world, Link { jitter_us: REORDER_US, ..Link::default() })
}

pub(super) fn duplicate(world: &World) -> Injected {
    everywhere(world, Link { twice_permille: TWICE_PERMILLE, ..Link::default() })
}

/// One follower reaches all nodes; the others are in two parts that do not reach each other.
pub(super) async fn bridge(world: &mut World) -> Injected {
    let middle = world.follower().await?;
    let others = others(world, middle);
    let (a, b) = others.split_at(others.len() / 2);
    lay(world, format!("over node {middle}"), Overlay::both_ways(a, b, Link::CUT))
}

pub(super) fn flapping(world: &mut World) -> Injected {
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
