//! The queue of the audit log: requests append lines, and one thread takes them. It is bounded, and no request waits
//! for it.

use super::{entry, refusals::RefusalLimiter, scope::AuditScope};
use fairhold_metrics::{Counter, Gauge, Registry};
use fairhold_types::{limits::AUDIT_QUEUE_BYTES_MAX, time::WallMillis};
use parking_lot::{Condvar, Mutex};
use std::{path::PathBuf, time::Duration};

/// The writer is woken early when this much of the queue is in use.
const WAKE_AT: usize = AUDIT_QUEUE_BYTES_MAX / 2;
/// A required log has no room for further calls from here on. The rest is for calls that have begun.
const FULL_AT: usize = AUDIT_QUEUE_BYTES_MAX / 4 * 3;
/// How long the writer collects lines before it writes them together.
const COLLECT_FOR: Duration = Duration::from_millis(100);

/// The audit log between the requests and its writer.
#[derive(Debug)]
pub struct AuditLog {
    rule: Mutex<AuditRule>,
    queue: Mutex<AuditQueue>,
    /// Wakes the writer.
    wake: Condvar,
    refusals: Mutex<RefusalLimiter>,
    metrics: AuditMetrics,
}

/// Which requests it has, and whether calls are refused that it must have, but cannot have now.
#[derive(Debug, Clone, Copy)]
struct AuditRule {
    scope: AuditScope,
    is_required: bool,
}

#[derive(Debug, Default)]
struct AuditQueue {
    lines: Vec<u8>,
    entries: u64,
    fault: Option<String>,
    /// The file that must be opened, also if it is the same as before.
    move_to: Option<PathBuf>,
    is_stopping: bool,
    /// Nobody takes lines any more.
    is_closed: bool,
}

/// What the writer takes from the queue.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AuditBatch {
    /// Whole lines.
    pub lines: Vec<u8>,
    /// How many they are.
    pub entries: u64,
    /// The entries belong into this file from now on. It must be opened again, also if it is the same as before.
    pub move_to: Option<PathBuf>,
    /// It is the last batch.
    pub is_last: bool,
}

/// The metrics of the audit log.
#[derive(Debug, Default)]
pub(super) struct AuditMetrics {
    written: Counter,
    lost: Counter,
    counted: Counter,
    faulty: Gauge,
}

impl AuditMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("audit_entries_written", "Entries written to the audit log", self.written.clone());
        registry.register("audit_entries_lost", "Entries that the audit log lost", self.lost.clone());
        let help = "Refused requests that the audit log only counts, because there were too many";
        registry.register("audit_refusals_counted", help, self.counted.clone());
        registry.register("audit_faulty", "1 while the audit log cannot be written", self.faulty.clone());
    }
}

impl AuditQueue {
    fn take_all(&mut self) -> AuditBatch {
        AuditBatch {
            lines: std::mem::take(&mut self.lines),
            entries: std::mem::take(&mut self.entries),
            move_to: self.move_to.take(),
            is_last: self.is_stopping,
        }
    }
}

impl AuditLog {
    pub(super) fn new(scope: AuditScope, is_required: bool) -> AuditLog {
        AuditLog {
            rule: Mutex::new(AuditRule { scope, is_required }),
            queue: Mutex::default(),
            wake: Condvar::new(),
            refusals: Mutex::default(),
            metrics: AuditMetrics::default(),
        }
    }

    /// Which requests it has.
    pub(crate) fn scope(&self) -> AuditScope {
        self.rule.lock().scope
    }

    /// Changes what it has, from the next request on.
    pub fn set_rule(&self, scope: AuditScope, is_required: bool) {
        *self.rule.lock() = AuditRule { scope, is_required };
    }

    /// Whether calls are refused that it must have, but cannot have now.
    pub(crate) fn refuses_calls(&self) -> bool {
        self.rule.lock().is_required && {
            let queue = self.queue.lock();
            queue.fault.is_some() || queue.lines.len() >= FULL_AT
        }
    }

    /// Appends a line. If there is no room for it, it is lost, and that is counted.
    pub fn append(&self, line: &[u8]) {
        let mut queue = self.queue.lock();
        if queue.is_closed || queue.lines.len() + line.len() > AUDIT_QUEUE_BYTES_MAX {
            drop(queue);
            self.metrics.lost.inc();
            return;
        }
        let (was_empty, before) = (queue.lines.is_empty(), queue.lines.len());
        queue.lines.extend_from_slice(line);
        queue.entries += 1;
        let is_full = before < WAKE_AT && queue.lines.len() >= WAKE_AT;
        drop(queue);
        if was_empty || is_full {
            self.wake.notify_one();
        }
    }

    /// Whether a refused request gets an entry of its own. Otherwise it is counted in one for many.
    pub(super) fn admits_refusal(&self, now: WallMillis, address: Option<&str>, principal: Option<&str>) -> bool {
        let is_admitted = self.refusals.lock().admit(now, address.unwrap_or_default(), principal.unwrap_or_default());
        if !is_admitted {
            self.metrics.counted.inc();
        }
        is_admitted
    }

    pub(super) fn metrics(&self) -> &AuditMetrics {
        &self.metrics
    }

    /// Waits up to this time for lines, and takes them. Only the writer calls it. It blocks the thread.
    pub fn take(&self, wait: Duration) -> AuditBatch {
        let mut queue = self.queue.lock();
        let is_idle = |queue: &mut AuditQueue| queue.lines.is_empty() && queue.move_to.is_none() && !queue.is_stopping;
        self.wake.wait_while_for(&mut queue, is_idle, wait);
        let collects = |queue: &mut AuditQueue| queue.lines.len() < WAKE_AT && queue.move_to.is_none() && !queue.is_stopping;
        if !queue.lines.is_empty() {
            self.wake.wait_while_for(&mut queue, collects, COLLECT_FOR);
        }
        queue.take_all()
    }

    /// The same without lines, for a writer that still has some.
    pub fn take_signals(&self, wait: Duration) -> AuditBatch {
        let mut queue = self.queue.lock();
        let is_idle = |queue: &mut AuditQueue| queue.move_to.is_none() && !queue.is_stopping;
        self.wake.wait_while_for(&mut queue, is_idle, wait);
        AuditBatch { move_to: queue.move_to.take(), is_last: queue.is_stopping, ..AuditBatch::default() }
    }

    /// Takes the last lines. Whatever is appended later is lost.
    pub fn close(&self) -> AuditBatch {
        let mut queue = self.queue.lock();
        queue.is_closed = true;
        queue.take_all()
    }

    /// Appends entries for the refusals that were only counted. The writer calls it every second.
    pub fn summarize_refusals(&self, now: WallMillis) {
        let summaries = self.refusals.lock().take_counted(now);
        for summary in summaries {
            self.append(&entry::of_counted(&summary, now));
        }
    }

    /// The writer has written this many entries.
    pub fn record_written(&self, entries: u64) {
        self.metrics.written.inc_by(entries);
    }

    /// The writer has lost this many entries.
    pub fn record_lost(&self, entries: u64) {
        self.metrics.lost.inc_by(entries);
    }

    /// The writer cannot write, for this reason; or it can again.
    pub fn set_fault(&self, fault: Option<String>) {
        self.metrics.faulty.set(i64::from(fault.is_some()));
        self.queue.lock().fault = fault;
    }

    /// Why it cannot be written now.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let queue = self.queue.lock();
        let is_slow = queue.lines.len() >= FULL_AT;
        queue.fault.clone().or_else(|| is_slow.then(|| "the disk is too slow for its entries".to_owned()))
    }

    /// How many entries it has lost.
    #[must_use]
    pub fn entries_lost(&self) -> u64 {
        self.metrics.lost.get()
    }

    /// Asks the writer to open this file, and to go on there. It may be the one that it has.
    pub fn move_to(&self, file: PathBuf) {
        self.queue.lock().move_to = Some(file);
        self.wake.notify_one();
    }

    /// Asks the writer to write what there is, and to end.
    pub fn stop(&self) {
        self.queue.lock().is_stopping = true;
        self.wake.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_WAIT: Duration = Duration::ZERO;

    fn log(is_required: bool) -> AuditLog {
        AuditLog::new(AuditScope::All, is_required)
    }

    #[test]
    fn the_writer_takes_lines_in_order_and_the_last_ones_at_the_stop() {
        let log = log(false);
        assert_eq!(log.take(NO_WAIT), AuditBatch::default());
        log.append(b"one\n");
        log.append(b"two\n");
        log.stop();
        let batch = log.take(Duration::from_secs(60));
        assert_eq!((batch.lines.as_slice(), batch.entries, batch.is_last), (&b"one\ntwo\n"[..], 2, true));
        log.append(b"three\n");
        assert_eq!(log.take_signals(Duration::from_secs(60)).lines, b"", "a writer that has lines leaves the others");
        assert_eq!(log.close().lines, b"three\n");
        log.append(b"late\n");
        assert_eq!((log.close().entries, log.entries_lost()), (0, 1), "an entry after the end is lost, and counted");
    }

    #[test]
    fn a_full_queue_loses_entries_and_counts_them() {
        let log = log(true);
        let line = [b'x'; 64 * 1024];
        let fitting = AUDIT_QUEUE_BYTES_MAX / line.len();
        for number in 0..fitting + 7 {
            let is_full = number * line.len() >= FULL_AT;
            assert_eq!((log.refuses_calls(), log.fault().is_some()), (is_full, is_full), "{number}");
            log.append(&line);
        }
        assert_eq!(log.entries_lost(), 7);
        let batch = log.take(NO_WAIT);
        assert_eq!((batch.entries, batch.lines.len()), (fitting as u64, AUDIT_QUEUE_BYTES_MAX));
        assert!(!log.refuses_calls() && log.fault().is_none(), "there is room again");
    }

    #[test]
    fn only_a_required_log_that_cannot_be_written_refuses_calls() {
        for (is_required, refuses) in [(false, false), (true, true)] {
            let log = log(is_required);
            log.set_fault(Some("No space left on device".to_owned()));
            assert_eq!(log.refuses_calls(), refuses);
            assert_eq!(log.fault().as_deref(), Some("No space left on device"));
            log.set_fault(None);
            assert!(!log.refuses_calls() && log.fault().is_none());
        }
    }

    #[test]
    fn a_changed_rule_and_another_file_count_at_once() {
        let log = log(false);
        log.set_fault(Some("the disk is full".to_owned()));
        assert!(!log.refuses_calls() && log.scope() == AuditScope::All);
        log.set_rule(AuditScope::Writes, true);
        assert!(log.refuses_calls() && log.scope() == AuditScope::Writes);
        log.move_to("a".into());
        log.move_to("b".into());
        assert_eq!(log.take_signals(Duration::ZERO).move_to, Some("b".into()), "the last one counts");
        assert_eq!(log.take_signals(Duration::ZERO).move_to, None);
    }
}
