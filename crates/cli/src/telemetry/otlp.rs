//! Spans as OTLP: one request of the protocol, in its JSON mapping.

use fairhold_trace::{Attribute, FinishedSpan, SpanKind};
use serde_json::{Value, json};

/// What is the same for all spans of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceResource {
    /// The number of the node.
    pub(crate) node: u64,
}

/// The body of one request with these spans.
pub(crate) fn body(resource: TraceResource, spans: &[FinishedSpan]) -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION");
    let attributes = [
        attribute("service.name", &text("fairhold")),
        attribute("service.version", &text(version)),
        attribute("service.instance.id", &text(&resource.node.to_string())),
    ];
    let spans: Vec<Value> = spans.iter().map(span).collect();
    let scope = json!({ "scope": { "name": "fairhold", "version": version }, "spans": spans });
    let request = json!({ "resourceSpans": [{ "resource": { "attributes": attributes }, "scopeSpans": [scope] }] });
    request.to_string().into_bytes()
}

fn span(span: &FinishedSpan) -> Value {
    let kind = match span.kind {
        SpanKind::Internal => 1,
        SpanKind::Server => 2,
        SpanKind::Client => 3,
    };
    let attributes: Vec<Value> = span.attributes.iter().map(|(key, value)| attribute(key, value)).collect();
    let mut encoded = json!({
        "traceId": span.context.trace.to_string(),
        "spanId": span.context.span.to_string(),
        "name": span.name,
        "kind": kind,
        "startTimeUnixNano": span.started_at.to_string(),
        "endTimeUnixNano": span.ended_at.to_string(),
        "attributes": attributes,
    });
    if let Some(parent) = span.parent {
        encoded["parentSpanId"] = parent.to_string().into();
    }
    if span.is_error {
        encoded["status"] = json!({ "code": 2 });
    }
    encoded
}

fn attribute(key: &str, value: &Attribute) -> Value {
    let value = match value {
        Attribute::Text(text) => json!({ "stringValue": text }),
        // Numbers of 64 bits are text in the mapping.
        Attribute::Number(number) => json!({ "intValue": number.to_string() }),
    };
    json!({ "key": key, "value": value })
}

fn text(text: &str) -> Attribute {
    Attribute::Text(text.to_owned())
}
