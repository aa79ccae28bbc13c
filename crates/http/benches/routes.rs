//! The cost of the hot routes without the node's work and the sockets: `cargo bench --workspace --bench routes`.

mod calls;

use calls::{NOW, new_id};
use divan::Bencher;
use fairhold_http::workbench;
use fairhold_types::{Path, Revision};
use openraft_rt_tokio::TokioRuntime;

fn main() {
    let runtime = calls::runtime();
    let _inside = runtime.enter();
    divan::main();
}

#[divan::bench(args = [false, true])]
fn read_an_acquire(bencher: Bencher<'_, '_>, by_body: bool) {
    let request = if by_body { calls::by_body } else { calls::by_query };
    bencher
        .with_inputs(request)
        .bench_local_values(|request| workbench::read_acquire::<TokioRuntime>(request, new_id()).expect("a call"));
}

#[divan::bench]
fn write_a_grant(bencher: Bencher<'_, '_>) {
    bencher.with_inputs(calls::grant).bench_local_values(|grant| workbench::write_grant(grant, Revision(1_000_042), NOW));
}

#[divan::bench(args = [false, true])]
fn write_a_node(bencher: Bencher<'_, '_>, meta: bool) {
    let node = calls::node();
    let path = || Path::parse("/app/config").expect("a path");
    bencher.with_inputs(path).bench_local_values(|path| workbench::write_node(path, &node, meta, Revision(1_000_042)));
}
