//! The entries of the audit for a reader, a page at a time.

use super::{record::ActRecord, ring::AuditRing};
use fairhold_access::Principal;

/// Which entries to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditQuery {
    /// The first number.
    pub from: u64,
    /// Only acts of this principal.
    pub principal: Option<Principal>,
    /// Only acts with this verb.
    pub verb: Option<String>,
    /// The newest entries instead of the first ones. They too are in the order of their numbers.
    pub newest: bool,
    /// How many entries at most.
    pub limit: usize,
}

/// A page of entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditPage {
    /// The exported lines, in the order of their numbers.
    pub lines: Vec<String>,
    /// The number of the last line, if others may follow it.
    pub next: Option<u64>,
}

/// A page under construction.
pub struct AuditListing<'r> {
    query: &'r AuditQuery,
    ring: &'r AuditRing,
    entries: Box<dyn Iterator<Item = (u64, &'r ActRecord)> + Send + 'r>,
    found: Vec<(u64, &'r ActRecord)>,
    has_more: bool,
}

impl std::fmt::Debug for AuditListing<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AuditListing")
    }
}

impl AuditRing {
    /// Begins a page.
    #[must_use]
    pub fn listing<'r>(&'r self, query: &'r AuditQuery) -> AuditListing<'r> {
        let entries = self.from(query.from);
        let entries: Box<dyn Iterator<Item = _> + Send> = if query.newest { Box::new(entries.rev()) } else { Box::new(entries) };
        AuditListing { query, ring: self, entries, found: Vec::new(), has_more: false }
    }
}

impl AuditListing<'_> {
    /// Visits this many further entries. Returns whether the page is complete.
    pub fn visit(&mut self, count: usize) -> bool {
        for _ in 0..count {
            let Some((seq, record)) = self.entries.next() else { return true };
            let AuditQuery { principal, verb, limit, .. } = self.query;
            let fits = principal.as_ref().is_none_or(|principal| *principal == record.origin.principal)
                && verb.as_ref().is_none_or(|verb| *verb == record.verb);
            if fits && self.found.len() >= *limit {
                self.has_more = true;
                return true;
            }
            if fits {
                self.found.push((seq, record));
            }
        }
        false
    }

    /// The page.
    #[must_use]
    pub fn into_page(mut self) -> AuditPage {
        if self.query.newest {
            self.found.reverse();
        }
        let last = self.found.last().map(|(seq, _)| *seq);
        let lines = self.found.iter().map(|(seq, record)| record.exported_line(*seq, self.ring.previous(*seq)));
        AuditPage { lines: lines.collect(), next: last.filter(|_| self.has_more && !self.query.newest) }
    }
}
