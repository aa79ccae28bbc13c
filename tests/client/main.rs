//! The Rust client on real clusters: its promises while leaders die, nodes and programs are paused, and networks break.

#[path = "../cluster/client.rs"]
#[expect(dead_code, reason = "shared with the tests of the cluster, which use all of it")]
mod client;
#[path = "../cluster/harness.rs"]
#[expect(dead_code, reason = "shared with the tests of the cluster, which use all of it")]
mod harness;
#[path = "../cluster/leaderships.rs"]
mod leaderships;
#[path = "../cluster/machines.rs"]
#[expect(dead_code, reason = "shared with the drills, which use all of it")]
mod machines;
#[path = "../cluster/trial.rs"]
mod trial;
#[path = "../cluster/without.rs"]
#[expect(dead_code, reason = "shared with the tests of the cluster, which use all of it")]
mod without;

mod basics;
mod broken;
mod clients;
mod cut_off;
mod dropped;
mod elections;
mod examples;
mod front_page;
mod grants;
mod guards;
mod guides;
mod leader_killed;
mod many;
mod paused;
mod readme;
mod reads;
mod recipes;
mod scripts;
mod watching;
