//! Traces: which requests have one, where the time of a request went, and the finished spans until they are sent.
//!
//! - `Tracer`: decides which requests are traced, makes ids, and keeps finished spans in a bounded queue. It is always
//!   there, and off unless a collector is configured. While it is off, a request reads one flag.
//! - `RequestWork`: the stages of one request, for its trace and for the log of slow requests.
//! - `RequestSpan`: the span of one traced request. Its stages are spans below it.
//! - `FinishedSpan`: a finished span, as the exporter sees it. `TakenSpans` are some of the queue, until they are sent.
//!
//! There is no I/O here. The clock and the randomness come from the process that makes the tracer, so a simulated node,
//! whose tracer is off, has neither.

mod ids;
mod request;
mod sampling;
mod span;
mod tracer;

pub use request::{RequestSpan, RequestWork};
pub use sampling::SampleRate;
pub use span::{Attribute, FinishedSpan, SpanKind, Stage, StageTime};
pub use tracer::{TakenSpans, Tracer};
