//! An entry of the audit: its canonical line and its hash.
//!
//! The canonical line is JSON without spaces, with all fields in one order:
//!
//! ```text
//! {"seq":7,"revision":90,"time":"2026-11-27T18:31:51.000Z","principal":"user:ci","address":"10.0.0.7","request":"2-19a-f",
//!  "verb":"break","on":"locks:orders/42","detail":"","reason":"stuck","result":"ok"}
//! ```
//!
//! The hash of an entry is the SHA-256 of its canonical line followed by the hash of the entry before, as 64 hexadecimal
//! digits. Before the first entry these are zeros. An exported line is the canonical line with `"previous"` and `"hash"` added
//! before its last brace, so anyone can verify it without this program.

use super::attributed::ActOrigin;
use crate::{weighed::Weigh, weight::len};
use fairhold_types::{Revision, time::WallMillis};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::{fmt, fmt::Write as _, str::FromStr, sync::Arc};

/// The memory of an entry without its texts.
const RECORD_BYTES: u64 = 450;

/// The bytes of `,"previous":"HASH"` in an exported line.
pub const PREVIOUS_PART_BYTES: usize = r#","previous":"""#.len() + 64;
/// The bytes of `,"hash":"HASH"` in an exported line.
pub const HASH_PART_BYTES: usize = r#","hash":"""#.len() + 64;

/// The hash of an entry.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChainHash(pub [u8; 32]);

/// What the first entry has instead of the hash before it.
pub const GENESIS: ChainHash = ChainHash([0; 32]);

impl ChainHash {
    /// The hash of the entry with this canonical line that follows the entry with this hash.
    #[must_use]
    pub fn of(canonical: &[u8], previous: ChainHash) -> ChainHash {
        let mut hasher = Sha256::new();
        hasher.update(canonical);
        hasher.update(previous.to_string());
        ChainHash(hasher.finalize().into())
    }
}

/// 64 hexadecimal digits in lower case.
impl fmt::Display for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChainHash({self})")
    }
}

impl FromStr for ChainHash {
    type Err = String;

    fn from_str(text: &str) -> Result<ChainHash, String> {
        let expected = || "a hash has 64 hexadecimal digits in lower case".to_owned();
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 64 || !text.bytes().all(is_digit) {
            return Err(expected());
        }
        let mut hash = [0; 32];
        for (index, byte) in hash.iter_mut().enumerate() {
            let digits = text.get(2 * index..2 * index + 2).ok_or_else(expected)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| expected())?;
        }
        Ok(ChainHash(hash))
    }
}

/// An act that was done or refused. Snapshots encode fields by position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActRecord {
    /// The revision that it made. A refused act makes one too, because the entry is a change.
    pub revision: Revision,
    /// When the request was received.
    pub at: WallMillis,
    /// Where it came from.
    pub origin: ActOrigin,
    /// What was done, such as `break` or `tokens.revoke`.
    pub verb: String,
    /// What it acted on, such as `locks:orders/42`; may be empty.
    pub on: String,
    /// Further facts, such as `limit=3`; may be empty.
    pub detail: String,
    /// The reason that the administrator gave; may be empty.
    pub reason: String,
    /// `ok`, `unknown` for an act outside the state whose end is unknown, or the code of the refusal.
    pub result: String,
    /// The hash of this entry and all before it.
    pub hash: ChainHash,
}

impl ActRecord {
    /// The line over which the hash is made.
    #[must_use]
    pub fn canonical_line(&self, seq: u64) -> String {
        let mut line = format!("{{\"seq\":{seq},\"revision\":{}", self.revision);
        for (name, text) in [
            ("time", self.at.to_rfc3339().as_str()),
            ("principal", self.origin.principal.as_str()),
            ("address", &self.origin.address),
            ("request", &self.origin.request),
            ("verb", &self.verb),
            ("on", &self.on),
            ("detail", &self.detail),
            ("reason", &self.reason),
            ("result", &self.result),
        ] {
            write_field(&mut line, name, text);
        }
        line.push('}');
        line
    }

    /// The line of an export.
    #[must_use]
    pub fn exported_line(&self, seq: u64, previous: ChainHash) -> String {
        let mut line = self.canonical_line(seq);
        line.pop();
        write_field(&mut line, "previous", &previous.to_string());
        write_field(&mut line, "hash", &self.hash.to_string());
        line.push('}');
        line
    }

    /// The hash that it must have.
    #[must_use]
    pub fn expected_hash(&self, seq: u64, previous: ChainHash) -> ChainHash {
        ChainHash::of(self.canonical_line(seq).as_bytes(), previous)
    }
}

impl Weigh<u64> for Arc<ActRecord> {
    fn weight(&self) -> u64 {
        let ActOrigin { principal, address, request } = &self.origin;
        let texts = [principal.as_str(), address, request, &self.verb, &self.on, &self.detail, &self.reason, &self.result];
        RECORD_BYTES + texts.into_iter().map(len).sum::<u64>()
    }
}

/// Writes a text as JSON. Only what JSON requires is escaped.
fn write_field(line: &mut String, name: &str, text: &str) {
    // Writing into a string cannot fail.
    write!(line, ",\"{name}\":\"").ok();
    for c in text.chars() {
        match c {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            c if c < ' ' => drop(write!(line, "\\u{:04x}", u32::from(c))),
            c => line.push(c),
        }
    }
    line.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_access::Principal;

    fn record(reason: &str) -> ActRecord {
        ActRecord {
            revision: Revision(90),
            at: WallMillis(1_763_700_840_120),
            origin: ActOrigin {
                principal: Principal::parse("user:ci").unwrap(),
                address: "10.0.0.7".to_owned(),
                request: "2-19a-f".to_owned(),
            },
            verb: "break".to_owned(),
            on: "locks:orders/42".to_owned(),
            detail: String::new(),
            reason: reason.to_owned(),
            result: "ok".to_owned(),
            hash: GENESIS,
        }
    }

    /// The hash is that of `printf '%s%s' "$line" "$zeros" | sha256sum`. Another one would break every export.
    #[test]
    fn the_canonical_line_and_the_hash_never_change() {
        let record = record("stuck");
        let line = record.canonical_line(7);
        assert_eq!(
            line,
            "{\"seq\":7,\"revision\":90,\"time\":\"2025-11-21T04:54:00.120Z\",\"principal\":\"user:ci\",\"address\":\"10.0.0.7\",\
             \"request\":\"2-19a-f\",\"verb\":\"break\",\"on\":\"locks:orders/42\",\"detail\":\"\",\"reason\":\"stuck\",\
             \"result\":\"ok\"}"
        );
        assert_eq!(
            record.expected_hash(7, GENESIS).to_string(),
            "13c460c8af58791cb2f93a02f54b05f3b26c584366f3cb1c04d7a9d85040f5ed"
        );
        let exported = record.exported_line(7, GENESIS);
        let canonical = &exported[..exported.len() - 1 - PREVIOUS_PART_BYTES - HASH_PART_BYTES];
        assert_eq!(format!("{canonical}}}"), line);
    }

    #[test]
    fn every_text_is_a_json_string() {
        for text in ["", "a \"quote\" \\ and é", "a\nline\tand\u{1}more\u{7f}", "\u{1f512}"] {
            let json: serde_json::Value = serde_json::from_str(&record(text).exported_line(1, GENESIS)).unwrap();
            assert_eq!(json["reason"], text);
        }
    }

    #[test]
    fn a_hash_is_read_as_it_is_written() {
        let hash = ChainHash::of(b"a", GENESIS);
        assert_eq!(hash.to_string().parse(), Ok(hash));
        for wrong in ["", "0", &hash.to_string()[1..], &hash.to_string().to_uppercase(), &format!("{}é", &hash.to_string()[2..])]
        {
            assert!(wrong.parse::<ChainHash>().is_err(), "{wrong}");
        }
    }
}
