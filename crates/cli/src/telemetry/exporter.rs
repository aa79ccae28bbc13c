//! Sends finished spans to a collector: OTLP over HTTP, in JSON. Nothing is sent twice: what the collector does not take
//! is dropped and counted.
//!
//! Spans are sent together, at most once a second unless there are enough for a full request.

use super::otlp::{self, TraceResource};
use crate::{
    config::trace::TraceConfig,
    local_http::{cause, client_of_server},
};
use fairhold_metrics::Registry;
use fairhold_trace::{FinishedSpan, Tracer};
use fairhold_types::limits::TRACE_BATCH_SPANS_MAX;
use parking_lot::Mutex;
use reqwest::{Client, Url, header::CONTENT_TYPE};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::task::JoinHandle;

/// The pause between two requests to the collector, unless the first one was full.
const SEND_EVERY: Duration = Duration::from_secs(1);
/// How long the collector may take for one request.
const SEND_LIMIT: Duration = Duration::from_secs(5);
/// The log says this often at most that the collector takes no spans.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The export of the spans of a node. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct TraceExport(Arc<Mutex<ExportState>>);

#[derive(Debug)]
struct ExportState {
    tracer: Tracer,
    /// Known once the node has started.
    resource: Option<TraceResource>,
    /// None if nothing is traced.
    exporter: Option<Exporter>,
    running: Option<JoinHandle<()>>,
}

/// What one collector needs.
#[derive(Debug, Clone)]
pub(crate) struct Exporter {
    config: TraceConfig,
    url: Url,
    client: Client,
}

impl Exporter {
    /// Contacts nobody yet.
    pub(crate) fn new(config: &TraceConfig) -> Result<Exporter, String> {
        let unusable = |why: String| format!("trace.endpoint in the configuration file: {}: {why}", config.endpoint);
        let url = Url::parse(&format!("{}/v1/traces", config.endpoint)).map_err(|error| unusable(error.to_string()))?;
        let client = client_of_server(&url, SEND_LIMIT).map_err(unusable)?;
        Ok(Exporter { config: config.clone(), url, client })
    }

    /// Sends what there is, again and again.
    async fn run(self, tracer: Tracer, resource: TraceResource) {
        let mut warnings = LossWarnings::default();
        loop {
            tokio::time::sleep(SEND_EVERY).await;
            while self.send_some(&tracer, resource, &mut warnings).await == TRACE_BATCH_SPANS_MAX {}
        }
    }

    /// Sends at most one request, and returns how many spans were in it. They are lost if this future is dropped.
    async fn send_some(&self, tracer: &Tracer, resource: TraceResource, warnings: &mut LossWarnings) -> usize {
        let taken = tracer.take(TRACE_BATCH_SPANS_MAX);
        let count = taken.len();
        if count == 0 {
            return 0;
        }
        let sent = self.send(resource, &taken).await;
        match sent {
            Ok(()) => taken.exported(),
            Err(why) => {
                drop(taken);
                if warnings.is_due(Instant::now()) {
                    let (endpoint, lost) = (&self.config.endpoint, tracer.dropped());
                    tracing::warn!(
                        "the collector of traces at {endpoint} takes no spans: {why}. This node has lost {lost} spans since its \
                         start"
                    );
                }
            }
        }
        count
    }

    async fn send(&self, resource: TraceResource, spans: &[FinishedSpan]) -> Result<(), String> {
        let request = self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/json");
        let request = request.body(otlp::body(resource, spans));
        let response = request.send().await.map_err(|error| cause(&error))?;
        if response.status().is_success() { Ok(()) } else { Err(format!("it answered {}", response.status())) }
    }
}

/// When the log said last that spans are lost.
#[derive(Debug, Default)]
struct LossWarnings(Option<Instant>);

impl LossWarnings {
    /// Whether the log says it now, too.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.0.is_none_or(|last| now.duration_since(last) >= WARN_EVERY);
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }
}

impl TraceExport {
    /// Nothing is sent before `start`.
    pub(crate) fn new(tracer: Tracer, exporter: Option<Exporter>) -> TraceExport {
        TraceExport(Arc::new(Mutex::new(ExportState { tracer, resource: None, exporter, running: None })))
    }

    /// The tracer whose spans it sends.
    pub(crate) fn tracer(&self) -> Tracer {
        self.0.lock().tracer.clone()
    }

    /// The node starts with this number. Needs a runtime.
    pub(crate) fn start(&self, node: u64, registry: &mut Registry) {
        let mut state = self.0.lock();
        state.tracer.register_metrics(registry);
        state.resource = Some(TraceResource { node });
        state.run();
    }

    /// Uses another collector, or none. Needs a runtime.
    pub(crate) fn replace(&self, exporter: Option<Exporter>) {
        let mut state = self.0.lock();
        state.exporter = exporter;
        state.run();
    }
}

impl ExportState {
    /// Runs with what counts now.
    fn run(&mut self) {
        let Some(resource) = self.resource else { return };
        if let Some(running) = self.running.take() {
            running.abort();
        }
        match &self.exporter {
            Some(exporter) => {
                self.tracer.turn_on(exporter.config.sample, exporter.config.shows_names);
                self.running = Some(tokio::spawn(exporter.clone().run(self.tracer.clone(), resource)));
            }
            None => self.tracer.turn_off(),
        }
    }
}

impl Drop for ExportState {
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            running.abort();
        }
    }
}

#[cfg(test)]
#[path = "exporter_tests.rs"]
mod tests;
