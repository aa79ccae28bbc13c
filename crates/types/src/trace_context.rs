//! The place of a request in a trace: the W3C header `traceparent`, and the form in which nodes send it to each other.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// The name of the header.
pub const TRACEPARENT: &str = "traceparent";

/// The maximum length of its value. Version 0 has 55 bytes, and later versions may have more fields.
const TRACEPARENT_BYTES_MAX: usize = 256;
/// The version that no header may have.
const VERSION_FORBIDDEN: u8 = 0xff;
/// The flag of a request that its caller records.
const FLAG_SAMPLED: u8 = 1;

/// The id of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TraceId(pub [u8; 16]);

/// The id of a span in its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SpanId(pub [u8; 8]);

/// A span of a trace: 24 bytes between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceContext {
    /// The trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
}

/// The value of a header `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// The caller's span.
    pub context: TraceContext,
    /// Whether the caller records its span.
    pub is_sampled: bool,
}

/// Why a text is no value of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a traceparent is like 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01, in lower case, without an id of zeros")]
pub struct ParseTraceParentError;

impl FromStr for TraceParent {
    type Err = ParseTraceParentError;

    fn from_str(text: &str) -> Result<TraceParent, ParseTraceParentError> {
        if text.len() > TRACEPARENT_BYTES_MAX {
            return Err(ParseTraceParentError);
        }
        let mut fields = text.split('-');
        let mut field = || fields.next().ok_or(ParseTraceParentError);
        let [version] = from_hex(field()?)?;
        let trace: [u8; 16] = from_hex(field()?)?;
        let span: [u8; 8] = from_hex(field()?)?;
        let [flags] = from_hex(field()?)?;
        let has_more = fields.next().is_some();
        // Versions that do not exist yet begin with the same fields.
        if version == VERSION_FORBIDDEN || (version == 0 && has_more) || trace == [0; 16] || span == [0; 8] {
            return Err(ParseTraceParentError);
        }
        let context = TraceContext { trace: TraceId(trace), span: SpanId(span) };
        Ok(TraceParent { context, is_sampled: flags & FLAG_SAMPLED != 0 })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TraceContext { trace, span } = self.context;
        write!(f, "00-{trace}-{span}-{:02x}", u8::from(self.is_sampled))
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

fn from_hex<const N: usize>(text: &str) -> Result<[u8; N], ParseTraceParentError> {
    if text.len() != 2 * N {
        return Err(ParseTraceParentError);
    }
    let mut digits = text.bytes().map(digit);
    let mut bytes = [0; N];
    for byte in &mut bytes {
        let mut next = || digits.next().flatten().ok_or(ParseTraceParentError);
        *byte = (next()? << 4) | next()?;
    }
    Ok(bytes)
}

/// The value of a digit. The header has no capital letters.
fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_header_comes_back_as_it_was() {
        let parent: TraceParent = VALID.parse().unwrap();
        assert!(parent.is_sampled);
        assert_eq!(parent.context.trace.0[..2], [0x0a, 0xf7]);
        assert_eq!(parent.to_string(), VALID);
        let unsampled: TraceParent = VALID.replace("-01", "-02").parse().unwrap();
        assert!(!unsampled.is_sampled, "other flags say nothing about it");
    }

    #[test]
    fn a_later_version_is_read_by_its_first_fields() {
        for text in [VALID.replacen("00", "01", 1), VALID.replacen("00", "cc", 1) + "-what-the-future-brings"] {
            assert_eq!(text.parse::<TraceParent>().map(|parent| parent.is_sampled), Ok(true), "{text}");
        }
    }

    #[test]
    fn whatever_the_standard_does_not_allow_is_refused() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let wrong = [
            String::new(),
            "-".repeat(3),
            "00".to_owned(),
            format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)),
            format!("00-{trace}-0000000000000000-01"),
            VALID.replacen("00", "ff", 1),
            VALID.replacen("00", "0", 1),
            VALID.replacen("00", "000", 1),
            VALID.to_uppercase(),
            VALID.replace("b7ad", "b7aD"),
            VALID.replace("b7ad", "b7a"),
            VALID.replace("b7ad", "b7ad0"),
            VALID.replace("b7ad", "b7g0"),
            VALID.replace("-01", "-1"),
            VALID.replace("-01", ""),
            VALID.replace("-01", "-"),
            format!("{VALID}-"),
            format!("{VALID}-more"),
            format!(" {VALID}"),
            format!("{VALID} "),
            VALID.replace('-', "_"),
            VALID.replace("b7ad", "\u{e9}7a"),
            VALID.replacen("00", "cc", 1) + "-" + &"x".repeat(10 * 1024),
            "0".repeat(10 * 1024),
            "-".repeat(10 * 1024),
        ];
        for text in wrong {
            assert_eq!(text.parse::<TraceParent>(), Err(ParseTraceParentError), "{text}");
        }
    }
}
