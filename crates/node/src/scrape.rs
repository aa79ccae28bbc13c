//! What a node serves at a scrape: its counters, and the numbers of its state.

use crate::{feed::dispatcher::WatchDispatcher, hub::Hub, node::Node};
use fairhold_metrics::{Registry, Scrape, collect};
use fairhold_state::{read::Census, statistics::Statistics};
use openraft_rt::AsyncRuntime;
use std::{fmt, sync::Arc, time::Duration};

impl<RT: AsyncRuntime> Node<RT> {
    /// Registers the node's counters, and the numbers of its state, which are read at each scrape.
    pub fn register_metrics(&self, registry: &mut Registry) {
        let inner = &self.0;
        inner.hub.metrics.register(registry);
        inner.backups.register(registry);
        let help = "Watches that this node ended because their readers were too slow, or because its event history had a gap";
        registry.register("watchers_cut", help, inner.hub.dispatcher.compacted.clone());
        let inner = Arc::clone(inner);
        collect(registry, move |scrape| {
            let (census, totals) = inner.replica.read(|state| (state.census(), state.totals().clone()));
            let (bytes, max) = inner.replica.read(|state| (state.bytes(), state.bytes_max()));
            write_census(scrape, census)?;
            scrape.gauge("state_bytes", "Size of the state in bytes, as counted against its budget", bytes)?;
            let help = "The state's budget in bytes: the smallest amount that any node can hold; 0 until a node has reported its \
                    amount";
            scrape.gauge("state_bytes_max", help, max.unwrap_or(0))?;
            write_totals(scrape, &totals)?;
            scrape.gauge("waiters_parked", "Requests that wait at this node", Hub::waiting(&inner.hub))?;
            inner.alarms.write(scrape)?;
            write_watches(scrape, &inner.hub.dispatcher)
        });
    }
}

fn write_watches(scrape: &mut Scrape<'_>, dispatcher: &WatchDispatcher) -> fmt::Result {
    let (bytes, revisions) = dispatcher.ring.kept();
    scrape.gauge("watchers_open", "Watches and long polls that are open at this node", dispatcher.count())?;
    scrape.gauge("watch_ring_bytes", "Bytes of recent events, kept for watches", bytes)?;
    scrape.gauge("watch_ring_revisions", "Revisions whose events are kept", revisions)
}

/// The totals that the state itself counts: unlike this node's counters, they survive restarts.
fn write_totals(scrape: &mut Scrape<'_>, totals: &Statistics) -> fmt::Result {
    let lost = totals.expired + totals.broken + totals.abandoned;
    scrape.counter("history_grants_lost", "Held grants that ended without a release, since the cluster was formed", lost)?;
    let help = "Grants that were granted after a wait, since the cluster was formed";
    scrape.counter("history_hand_overs", help, totals.hand_overs)?;
    let seconds = |millis: u64| Duration::from_millis(millis).as_secs_f64();
    let help = "Total waiting time of grants that were granted, since the cluster was formed";
    scrape.counter_of_seconds("history_wait_seconds", help, seconds(totals.waited.sum_ms))?;
    let help = "Total holding time of grants that have ended, since the cluster was formed";
    scrape.counter_of_seconds("history_hold_seconds", help, seconds(totals.held.sum_ms))
}

fn write_census(scrape: &mut Scrape<'_>, census: Census) -> fmt::Result {
    scrape.gauge("locks", "Locks that have a holder or a waiter", census.locks)?;
    let grants = [("held", census.held), ("queued", census.waiting), ("cooling", census.cooling)];
    let grants = grants.map(|(state, count)| (state.to_owned(), count));
    scrape.gauges("grants", "Grants, by state", "state", grants)?;
    scrape.gauge("history_entries", "Entries in the history of locks", census.history)?;
    scrape.gauge("sessions", "Open sessions, including those made for a single grant", census.sessions)?;
    scrape.gauge("tree_nodes", "Nodes of the tree, including those of locks and grants", census.nodes)?;
    scrape.gauge("tree_value_bytes", "Total size of all node values in bytes", census.value_bytes)
}
