//! One request: where its time went, and its span if it is traced.

use crate::{
    span::{Attribute, FinishedSpan, SpanKind, Stage, StageTime},
    tracer::{TraceDecision, Tracer},
};
use fairhold_types::trace_context::{ParseTraceParentError, SpanId, TraceContext, TraceParent};
use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// The span of a request that is traced.
#[derive(Debug, Clone)]
pub struct RequestSpan {
    pub(crate) tracer: Tracer,
    pub(crate) context: TraceContext,
    /// The caller's span.
    pub(crate) parent: Option<SpanId>,
    /// In nanoseconds of Unix time.
    pub(crate) started_at: u64,
    is_only_requested: bool,
}

impl RequestSpan {
    /// Begins the span of a request, if the tracer traces it. `given` reads the header `traceparent`.
    pub fn begin(
        tracer: &Tracer,
        given: impl FnOnce() -> Option<Result<TraceParent, ParseTraceParentError>>,
    ) -> Option<RequestSpan> {
        let TraceDecision { context, parent, is_only_requested } = tracer.begin(given)?;
        Some(RequestSpan { tracer: tracer.clone(), context, parent, started_at: tracer.now(), is_only_requested })
    }

    /// Whether the sample does not include the request: its caller requests the trace. If the caller is a stranger, drop the
    /// span.
    #[must_use]
    pub fn is_only_requested(&self) -> bool {
        self.is_only_requested
    }

    /// Its trace and its own id.
    #[must_use]
    pub fn context(&self) -> TraceContext {
        self.context
    }

    /// Whether attributes may have names of locks and callers.
    #[must_use]
    pub fn shows_names(&self) -> bool {
        self.tracer.shows_names()
    }

    /// The request has ended.
    pub fn end(self, name: String, attributes: Vec<(&'static str, Attribute)>, is_error: bool) {
        self.tracer.finish(FinishedSpan {
            context: self.context,
            parent: self.parent,
            name: name.into(),
            kind: SpanKind::Server,
            started_at: self.started_at,
            ended_at: self.tracer.now(),
            attributes,
            is_error,
        });
    }
}

/// Where the time of one request went. Several parts of a request may run at once, so the sum of the stages may be longer
/// than the request.
#[derive(Debug, Default)]
pub struct RequestWork {
    /// Nanoseconds of each stage.
    times: [AtomicU64; Stage::ALL.len()],
    /// How many parts of the request wait for others now.
    waiting: AtomicU32,
    /// If the request is traced.
    span: OnceLock<RequestSpan>,
}

impl RequestWork {
    /// The request is traced with this span. Only the first one counts.
    pub fn trace(&self, span: RequestSpan) {
        self.span.get_or_init(|| span);
    }

    /// The span of a stage that begins, for another node; `None` if the request is not traced.
    #[must_use]
    pub fn next_span(&self) -> Option<TraceContext> {
        let span = self.span.get()?;
        Some(TraceContext { span: span.tracer.span_id(), ..span.context })
    }

    /// A stage has ended.
    pub fn record(&self, stage: StageTime) {
        let nanos = u64::try_from(stage.took.as_nanos()).unwrap_or(u64::MAX);
        if let Some(time) = self.times.get(stage.stage as usize) {
            time.fetch_add(nanos, Relaxed);
        }
        if let Some(span) = self.span.get() {
            span.tracer.finish_stage(span.context, stage);
        }
    }

    /// The request begins to wait for others.
    pub fn begin_wait(&self) {
        self.waiting.fetch_add(1, Relaxed);
    }

    /// It has waited this long.
    pub fn end_wait(&self, took: Duration) {
        self.waiting.fetch_sub(1, Relaxed);
        self.record(StageTime::now(Stage::Wait, took));
    }

    /// Whether it waits for others now.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.waiting.load(Relaxed) > 0
    }

    /// How long a stage has taken so far, over all its times.
    #[must_use]
    pub fn time(&self, stage: Stage) -> Duration {
        self.times.get(stage as usize).map_or(Duration::ZERO, |time| Duration::from_nanos(time.load(Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SampleRate;

    const MS: Duration = Duration::from_millis(1);

    fn traced() -> (Tracer, RequestSpan) {
        let tracer = Tracer::new([1, 2], || 1_000_000_000);
        tracer.turn_on(SampleRate::new(1.0).unwrap(), false);
        let span = RequestSpan::begin(&tracer, || None).unwrap();
        (tracer, span)
    }

    #[test]
    fn each_stage_has_the_sum_of_its_times() {
        let work = RequestWork::default();
        assert_eq!(work.next_span(), None);
        work.record(StageTime::now(Stage::Commit, MS));
        work.record(StageTime::now(Stage::Commit, 2 * MS));
        work.begin_wait();
        assert!(work.is_waiting());
        work.end_wait(7 * MS);
        assert!(!work.is_waiting());
        let times = Stage::ALL.map(|stage| work.time(stage));
        assert_eq!(times, [Duration::ZERO, Duration::ZERO, 3 * MS, Duration::ZERO, Duration::ZERO, 7 * MS]);
    }

    #[test]
    fn the_stages_of_a_traced_request_are_spans_below_it() {
        let (tracer, span) = traced();
        let work = RequestWork::default();
        work.trace(span.clone());
        let hop = work.next_span().unwrap();
        work.record(StageTime { stage: Stage::Queue, took: 2 * MS, ended_ago: 5 * MS, span: None });
        work.record(StageTime { span: Some(hop.span), ..StageTime::now(Stage::Forward, 5 * MS) });
        span.clone().end("POST /v1/locks/{name}".to_owned(), Vec::new(), false);
        let spans = tracer.take(10);
        let names: Vec<&str> = spans.iter().map(|span| &*span.name).collect();
        assert_eq!(names, ["queue", "forward", "POST /v1/locks/{name}"]);
        let [queue, forward, request] = &*spans else { panic!("{spans:?}") };
        assert_eq!((queue.parent, forward.parent), (Some(request.context.span), Some(request.context.span)));
        assert!(spans.iter().all(|span| span.context.trace == hop.trace));
        assert_eq!((forward.context.span, request.context), (hop.span, span.context()));
        assert_eq!((queue.started_at, queue.ended_at), (993_000_000, 995_000_000));
        assert_eq!((request.kind, forward.kind, queue.kind), (SpanKind::Server, SpanKind::Client, SpanKind::Internal));
    }
}
