//! Decides which requests are traced, and keeps finished spans until the exporter takes them.

use crate::{
    ids::IdSource,
    sampling::SampleRate,
    span::{FinishedSpan, SpanKind, Stage, StageTime},
};
use fairhold_metrics::{Counter, Registry};
use fairhold_types::{
    limits::TRACE_QUEUE_SPANS_MAX,
    trace_context::{ParseTraceParentError, SpanId, TraceContext, TraceParent},
};
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

/// Traces the requests of one node. Clones are handles of the same tracer. The default one is off for ever.
#[derive(Debug, Clone, Default)]
pub struct Tracer(Arc<TracerInner>);

#[derive(Debug)]
struct TracerInner {
    is_on: AtomicBool,
    shows_names: AtomicBool,
    /// The sample rate, in millionths.
    sample: AtomicU32,
    ids: IdSource,
    /// Unix time in nanoseconds.
    clock: fn() -> u64,
    finished: Mutex<VecDeque<FinishedSpan>>,
    metrics: TraceMetrics,
}

/// How a request is traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceDecision {
    /// Its span.
    pub(crate) context: TraceContext,
    /// The caller's span.
    pub(crate) parent: Option<SpanId>,
    /// The sample does not include it: its caller requests the trace.
    pub(crate) is_only_requested: bool,
}

/// Spans that were taken from the queue. Unless the collector gets them, they count as dropped as soon as this is dropped.
#[derive(Debug)]
pub struct TakenSpans {
    tracer: Tracer,
    spans: Vec<FinishedSpan>,
}

impl TakenSpans {
    /// The collector has them.
    pub fn exported(mut self) {
        self.tracer.0.metrics.exported.inc_by(self.spans.len() as u64);
        self.spans.clear();
    }
}

impl Deref for TakenSpans {
    type Target = [FinishedSpan];

    fn deref(&self) -> &[FinishedSpan] {
        &self.spans
    }
}

impl Drop for TakenSpans {
    fn drop(&mut self) {
        self.tracer.count_dropped(self.spans.len());
    }
}

#[derive(Debug, Default)]
struct TraceMetrics {
    exported: Counter,
    dropped: Counter,
    headers_refused: Counter,
}

impl Default for TracerInner {
    fn default() -> TracerInner {
        TracerInner {
            is_on: AtomicBool::new(false),
            shows_names: AtomicBool::new(false),
            sample: AtomicU32::new(0),
            ids: IdSource::default(),
            clock: || 0,
            finished: Mutex::default(),
            metrics: TraceMetrics::default(),
        }
    }
}

impl Tracer {
    /// A tracer that is off. The seeds are random numbers, and the clock is Unix time in nanoseconds.
    #[must_use]
    pub fn new(seeds: [u64; 2], clock: fn() -> u64) -> Tracer {
        Tracer(Arc::new(TracerInner { ids: IdSource::new(seeds), clock, ..TracerInner::default() }))
    }

    /// Traces this part of the requests from now on. Somebody must take the spans.
    pub fn turn_on(&self, sample: SampleRate, shows_names: bool) {
        self.0.sample.store(sample.millionths(), Relaxed);
        self.0.shows_names.store(shows_names, Relaxed);
        self.0.is_on.store(true, Relaxed);
    }

    /// Traces nothing from now on. The spans that nobody has taken are dropped.
    pub fn turn_off(&self) {
        self.0.is_on.store(false, Relaxed);
        let left = std::mem::take(&mut *self.0.finished.lock());
        self.count_dropped(left.len());
    }

    /// Whether it traces.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_on.load(Relaxed)
    }

    /// Decides whether a request is traced. `given` reads the caller's header, which counts before the sample. A header that is
    /// not valid counts as none.
    pub(crate) fn begin(
        &self,
        given: impl FnOnce() -> Option<Result<TraceParent, ParseTraceParentError>>,
    ) -> Option<TraceDecision> {
        if !self.is_on() {
            return None;
        }
        let parent = given().and_then(|parent| {
            if parent.is_err() {
                self.0.metrics.headers_refused.inc();
            }
            parent.ok()
        });
        let is_in_sample = SampleRate::of_millionths(self.0.sample.load(Relaxed)).includes(self.0.ids.random());
        parent.map_or(is_in_sample, |parent| parent.is_sampled).then(|| {
            let trace = parent.map_or_else(|| self.0.ids.trace_id(), |parent| parent.context.trace);
            TraceDecision {
                context: TraceContext { trace, span: self.span_id() },
                parent: parent.map(|parent| parent.context.span),
                is_only_requested: !is_in_sample,
            }
        })
    }

    /// A stage has ended. Its span is a part of this one, which may be that of another node: this one may trace nothing.
    pub fn finish_stage(&self, parent: TraceContext, stage: StageTime) {
        if !self.is_on() {
            return;
        }
        let StageTime { stage, took, ended_ago, span } = stage;
        let ended_at = self.now().saturating_sub(nanos(ended_ago));
        let kind = if stage == Stage::Forward { SpanKind::Client } else { SpanKind::Internal };
        self.finish(FinishedSpan {
            context: TraceContext { span: span.unwrap_or_else(|| self.span_id()), ..parent },
            parent: Some(parent.span),
            name: stage.as_str().into(),
            kind,
            started_at: ended_at.saturating_sub(nanos(took)),
            ended_at,
            attributes: Vec::new(),
            is_error: false,
        });
    }

    /// Takes the oldest finished spans.
    #[must_use]
    pub fn take(&self, max: usize) -> TakenSpans {
        let mut finished = self.0.finished.lock();
        let count = finished.len().min(max);
        TakenSpans { tracer: self.clone(), spans: finished.drain(..count).collect() }
    }

    /// How many spans were dropped since the start of the process.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.metrics.dropped.get()
    }

    fn count_dropped(&self, spans: usize) {
        self.0.metrics.dropped.inc_by(spans as u64);
    }

    /// Adds its metrics.
    pub fn register_metrics(&self, registry: &mut Registry) {
        let metrics = &self.0.metrics;
        registry.register("trace_spans_exported", "Spans that the collector of traces has", metrics.exported.clone());
        let help = "Spans that were dropped, because the collector was too slow or did not take them";
        registry.register("trace_spans_dropped", help, metrics.dropped.clone());
        let help = "Headers traceparent that were ignored, because they are not valid";
        registry.register("trace_headers_refused", help, metrics.headers_refused.clone());
    }

    pub(crate) fn shows_names(&self) -> bool {
        self.0.shows_names.load(Relaxed)
    }

    pub(crate) fn span_id(&self) -> SpanId {
        self.0.ids.span_id()
    }

    pub(crate) fn now(&self) -> u64 {
        (self.0.clock)()
    }

    /// Adds a finished span to the queue, if there is room.
    pub(crate) fn finish(&self, span: FinishedSpan) {
        let mut finished = self.0.finished.lock();
        // It may have been turned off since the request began.
        if self.is_on() && finished.len() < TRACE_QUEUE_SPANS_MAX {
            finished.push_back(span);
        } else {
            drop(finished);
            self.count_dropped(1);
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn on(part: f64) -> Tracer {
        let tracer = Tracer::new([1, 2], || 7);
        tracer.turn_on(SampleRate::new(part).unwrap(), false);
        tracer
    }

    fn stage() -> StageTime {
        StageTime::now(Stage::Commit, Duration::from_nanos(3))
    }

    #[test]
    fn while_it_is_off_nothing_is_read_and_nothing_is_kept() {
        let tracer = Tracer::default();
        assert!(tracer.begin(|| panic!("the header is not read")).is_none());
        let traced = on(1.0).begin(|| None).unwrap();
        tracer.finish_stage(traced.context, stage());
        assert!(tracer.take(1).is_empty());
        assert_eq!(tracer.dropped(), 0, "a span of another node is not lost here");
    }

    #[test]
    fn the_caller_decides_and_a_wrong_header_counts_as_none() {
        let (never, always) = (on(0.0), on(1.0));
        let parent: TraceParent = PARENT.parse().unwrap();
        for (tracer, is_only_requested) in [(&never, true), (&always, false)] {
            let sampled = tracer.begin(|| Some(Ok(parent))).unwrap();
            assert_eq!((sampled.context.trace, sampled.parent), (parent.context.trace, Some(parent.context.span)));
            assert_ne!(sampled.context.span, parent.context.span);
            assert_eq!(sampled.is_only_requested, is_only_requested);
        }
        assert!(always.begin(|| Some(PARENT.replace("-01", "-00").parse())).is_none(), "the caller records nothing");
        assert!(never.begin(|| None).is_none());
        assert!(never.begin(|| Some("nonsense".parse())).is_none());
        let wrong = always.begin(|| Some("nonsense".parse())).unwrap();
        assert_eq!((wrong.parent, wrong.is_only_requested), (None, false));
        let refused = [never, always].map(|tracer| tracer.0.metrics.headers_refused.get());
        assert_eq!(refused, [1, 1]);
    }

    #[test]
    fn a_full_queue_drops_the_newest_spans_and_counts_them() {
        let tracer = on(1.0);
        let span = tracer.begin(|| None).unwrap().context;
        for _ in 0..TRACE_QUEUE_SPANS_MAX + 3 {
            tracer.finish_stage(span, stage());
        }
        assert_eq!(tracer.dropped(), 3);
        let taken = tracer.take(5);
        assert_eq!(taken.len(), 5);
        tracer.turn_off();
        assert_eq!(tracer.dropped(), 3 + TRACE_QUEUE_SPANS_MAX as u64 - 5);
        taken.exported();
        assert_eq!(tracer.dropped(), 3 + TRACE_QUEUE_SPANS_MAX as u64 - 5);
        tracer.finish_stage(span, stage());
        assert!(tracer.take(1).is_empty(), "a request from before leaves nothing behind");
    }

    #[test]
    fn taken_spans_are_dropped_unless_the_collector_gets_them() {
        let tracer = on(1.0);
        let span = tracer.begin(|| None).unwrap().context;
        for _ in 0..5 {
            tracer.finish_stage(span, stage());
        }
        tracer.take(2).exported();
        assert_eq!((tracer.0.metrics.exported.get(), tracer.dropped()), (2, 0));
        drop(tracer.take(2));
        assert_eq!((tracer.0.metrics.exported.get(), tracer.dropped()), (2, 2));
        assert_eq!(tracer.take(2).len(), 1);
    }
}
