//! Drives and measures a load: when operations start, how long they take, how many there are. It is independent of the
//! operations: the loads on other systems, in `bench/`, use this same file.

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// The significant digits of a time.
const DIGITS: u8 = 3;
/// The longest distinct time, in microseconds: ten minutes. Longer times count as this one.
const MICROS_MAX: u64 = 600_000_000;
/// The pause of a client after a failed operation, which protects an unavailable cluster from a flood of requests.
const FAILURE_PAUSE: Duration = Duration::from_millis(10);
/// How long clients may take to finish their operations in flight at the end.
const TAIL_MAX: Duration = Duration::from_secs(30);
/// How many of the longest gaps are reported: enough to tell one stall from many.
const GAPS: usize = 5;

/// The amount and duration of a load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadPlan {
    /// Concurrent clients.
    pub(crate) clients: usize,
    /// The time before the measured time.
    pub(crate) warmup: Duration,
    /// The measured time: operations that end in it count.
    pub(crate) time: Duration,
    /// Operations a second, over all clients, that start whether or not earlier ones are done. Without it, each client
    /// starts the next operation when the previous one is done.
    pub(crate) rate: Option<f64>,
}

/// The repeated operation of one client.
pub(crate) trait Work: Send + 'static {
    /// Performs the operation once, and returns the moment at which its latency ends. Work after that moment is part of
    /// the operation, but not of the latency.
    ///
    /// # Errors
    /// Why the operation failed. The client continues with the next.
    fn once(&mut self, steps: &mut Steps) -> impl Future<Output = Result<Instant, String>> + Send;
}

/// A histogram of times.
#[derive(Debug, Clone)]
pub(crate) struct Times(Histogram<u64>);

impl Times {
    /// An empty histogram.
    pub(crate) fn new() -> Times {
        Times(Histogram::new_with_bounds(1, MICROS_MAX, DIGITS).expect("the bounds are constants in order"))
    }

    /// Adds a time, at most the longest distinct one.
    pub(crate) fn record(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_micros()).unwrap_or(MICROS_MAX).max(1));
    }

    /// Adds the times of another histogram.
    pub(crate) fn add(&mut self, other: &Times) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    /// The number of times.
    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time, in milliseconds, that this percentage of all times does not exceed.
    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        self.0.value_at_percentile(percent) as f64 / 1_000.0
    }

    /// Count, mean and percentiles, in milliseconds.
    pub(crate) fn json(&self) -> Value {
        let at = |percent: f64| self.percentile(percent);
        json!({
            "count": self.count(), "mean": round(self.0.mean() / 1_000.0), "min": self.0.min() as f64 / 1_000.0,
            "p50": at(50.0), "p90": at(90.0), "p99": at(99.0), "p99_9": at(99.9), "max": self.0.max() as f64 / 1_000.0,
        })
    }
}

/// Rounds to three decimals.
pub(crate) fn round(number: f64) -> f64 {
    (number * 1_000.0).round() / 1_000.0
}

/// The times of the steps of operations, in the order of their first appearance.
#[derive(Debug, Clone, Default)]
pub(crate) struct Steps {
    all: Vec<(&'static str, Times)>,
    now: Vec<(&'static str, Duration)>,
}

impl Steps {
    /// Records the time of a step of the current operation. It counts if the operation does.
    pub(crate) fn took(&mut self, step: &'static str, time: Duration) {
        self.now.push((step, time));
    }

    fn settle(&mut self, counts: bool) {
        for (step, time) in std::mem::take(&mut self.now) {
            // Creates the histogram even if the step does not count: during the warm-up, instead of for all clients at
            // once later.
            let times = self.times(step);
            if counts {
                times.record(time);
            }
        }
    }

    fn times(&mut self, step: &'static str) -> &mut Times {
        let place = self.all.iter().position(|(name, _)| *name == step).unwrap_or_else(|| {
            self.all.push((step, Times::new()));
            self.all.len() - 1
        });
        &mut self.all[place].1
    }

    fn add(&mut self, other: &Steps) {
        for (step, times) in &other.all {
            self.times(step).add(times);
        }
    }
}

/// The progress of all clients.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Operations completed in the measured time.
    pub(crate) done: AtomicU64,
    /// Operations that failed in the measured time.
    pub(crate) failed: AtomicU64,
    /// When the last operation completed, in nanoseconds after the start.
    last: AtomicU64,
    /// The shortest kept gap, in nanoseconds, once `GAPS` are kept: only longer gaps matter.
    bar: AtomicU64,
    /// The longest gaps, longest first.
    gaps: Mutex<Vec<Gap>>,
}

/// A time without any completed operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    /// Its start, relative to the start of the measured time.
    pub(crate) from: Duration,
    /// Its length.
    pub(crate) length: Duration,
}

impl Progress {
    /// Records an operation that completed at this time after the start.
    fn record(&self, after: Duration) {
        self.done.fetch_add(1, Relaxed);
        self.silent_until(after);
    }

    /// Records the gap from the last completed operation to this time.
    fn silent_until(&self, after: Duration) {
        let after = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        let last = self.last.fetch_max(after, Relaxed);
        let length = after.saturating_sub(last);
        if length > self.bar.load(Relaxed) {
            let mut gaps = self.gaps.lock();
            let from = Duration::from_nanos(last);
            let length = Duration::from_nanos(length);
            let place = gaps.partition_point(|gap| gap.length >= length);
            gaps.insert(place, Gap { from, length });
            gaps.truncate(GAPS);
            if let Some(shortest) = gaps.get(GAPS - 1) {
                self.bar.store(u64::try_from(shortest.length.as_nanos()).unwrap_or(u64::MAX), Relaxed);
            }
        }
    }

    fn gaps(&self) -> Vec<Gap> {
        self.gaps.lock().clone()
    }
}

/// When a client starts its operations.
#[derive(Debug, Clone, Copy)]
struct Pace {
    begin: Instant,
    end: Instant,
    /// The interval between two operations of one client, and the offset of this client within it.
    every: Option<(Duration, Duration)>,
}

/// The results of one client, or of all.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Operations completed in the measured time.
    pub(crate) done: u64,
    /// Operations that failed in the measured time.
    pub(crate) failed: u64,
    /// Operations completed at any time, including the warm-up and the time after the end.
    pub(crate) in_all: u64,
    /// The error of the first failed operation.
    pub(crate) first_failure: Option<String>,
    latency: Times,
    steps: Steps,
}

impl Tally {
    fn new() -> Tally {
        Tally { done: 0, failed: 0, in_all: 0, first_failure: None, latency: Times::new(), steps: Steps::default() }
    }

    fn add(&mut self, other: Tally) {
        self.done += other.done;
        self.failed += other.failed;
        self.in_all += other.in_all;
        self.first_failure = self.first_failure.take().or(other.first_failure);
        self.latency.add(&other.latency);
        self.steps.add(&other.steps);
    }

    fn failed(&mut self, why: String, counts: bool) {
        self.failed += u64::from(counts);
        self.first_failure.get_or_insert(why);
    }
}

/// The results of a run.
#[derive(Debug)]
pub(crate) struct RunOutcome {
    /// The load.
    pub(crate) plan: LoadPlan,
    /// The results of all clients.
    pub(crate) tally: Tally,
    /// The processor time that this process used in the measured time.
    pub(crate) load_cpu: Duration,
    /// The longest gaps of the measured time, longest first.
    pub(crate) gaps: Vec<Gap>,
}

impl RunOutcome {
    /// Operations a second.
    pub(crate) fn per_second(&self) -> f64 {
        self.tally.done as f64 / self.plan.time.as_secs_f64()
    }

    /// All figures as one JSON object.
    pub(crate) fn json(&self, workload: &str, client: &str) -> Map<String, Value> {
        let RunOutcome { plan, tally, load_cpu, gaps } = self;
        let millis = |time: Duration| round(time.as_secs_f64() * 1_000.0);
        let longest = gaps.first().map_or(0.0, |gap| millis(gap.length));
        let gaps: Vec<Value> =
            gaps.iter().map(|gap| json!({"ms": millis(gap.length), "at_seconds": round(gap.from.as_secs_f64())})).collect();
        let steps: Map<String, Value> = tally.steps.all.iter().map(|(step, times)| ((*step).to_owned(), times.json())).collect();
        let micros_each = load_cpu.as_micros() as f64 / tally.done.max(1) as f64;
        let value = json!({
            "workload": workload, "client": client, "clients": plan.clients, "seconds": plan.time.as_secs_f64(),
            "rate": plan.rate,
            "done": tally.done, "failed": tally.failed, "in_all": tally.in_all, "first_failure": tally.first_failure,
            "per_second": round(self.per_second()), "latency_ms": tally.latency.json(), "steps_ms": steps,
            "longest_gap_ms": longest, "gaps": gaps,
            "load_cpu_seconds": round(load_cpu.as_secs_f64()), "load_cpu_micros_each": round(micros_each),
        });
        value.as_object().cloned().unwrap_or_default()
    }
}

/// Runs all clients according to the plan. `watch` runs concurrently and sees their progress. `cpu` returns the
/// processor time that this process has used.
pub(crate) async fn drive<W: Work>(
    plan: LoadPlan,
    works: Vec<W>,
    cpu: fn() -> Duration,
    watch: impl AsyncFnOnce(Arc<Progress>, Instant),
) -> RunOutcome {
    let progress = Arc::new(Progress::default());
    let begin = Instant::now() + plan.warmup;
    let end = begin + plan.time;
    let every = plan.rate.map(|rate| Duration::from_secs_f64(works.len() as f64 / rate));
    let count = u32::try_from(works.len()).unwrap_or(u32::MAX).max(1);
    let clients: Vec<_> = works
        .into_iter()
        .zip(0_u32..)
        .map(|(work, index)| {
            let pace = Pace { begin, end, every: every.map(|every| (every, every / count * index)) };
            tokio::spawn(client(work, pace, Arc::clone(&progress)))
        })
        .collect();
    let looking_on = watch(Arc::clone(&progress), begin);
    let measuring = async {
        tokio::time::sleep_until(begin.into()).await;
        let before = cpu();
        tokio::time::sleep_until(end.into()).await;
        cpu().saturating_sub(before)
    };
    let (load_cpu, ()) = tokio::join!(measuring, async {
        // It may never return; it ends with the measured time.
        tokio::time::timeout_at(end.into(), looking_on).await.ok();
    });
    let mut tally = Tally::new();
    let patience = Instant::now() + TAIL_MAX;
    for client in clients {
        let abort = client.abort_handle();
        match tokio::time::timeout_at(patience.into(), client).await {
            Ok(Ok(one)) => tally.add(one),
            Ok(Err(error)) => tally.failed(format!("a client's task: {error}"), true),
            Err(_) => {
                abort.abort();
                tally.failed(format!("an operation did not complete within {TAIL_MAX:?} after the measured time"), true);
            }
        }
    }
    progress.silent_until(plan.time);
    RunOutcome { plan, tally, load_cpu, gaps: progress.gaps() }
}

async fn client<W: Work>(mut work: W, pace: Pace, progress: Arc<Progress>) -> Tally {
    let mut tally = Tally::new();
    let mut steps = Steps::default();
    let mut intended = Instant::now() + pace.every.map_or(Duration::ZERO, |(_, offset)| offset);
    loop {
        if let Some((every, _)) = pace.every {
            tokio::time::sleep_until(intended.min(pace.end).into()).await;
            if intended >= pace.end {
                break;
            }
            // The latency counts from the scheduled start: a delayed start is part of the wait.
            let result = work.once(&mut steps).await;
            settle(result, intended, pace, &mut tally, &mut steps, &progress).await;
            intended += every;
        } else {
            intended = Instant::now();
            let result = work.once(&mut steps).await;
            settle(result, intended, pace, &mut tally, &mut steps, &progress).await;
        }
        if Instant::now() >= pace.end {
            break;
        }
    }
    // Scheduled operations that never started count as late. Otherwise an overload would look like a light load.
    if let Some((every, _)) = pace.every {
        while intended < pace.end {
            tally.latency.record(pace.end - intended);
            intended += every;
        }
    }
    tally.steps = steps;
    tally
}

async fn settle(
    result: Result<Instant, String>,
    from: Instant,
    pace: Pace,
    tally: &mut Tally,
    steps: &mut Steps,
    progress: &Progress,
) {
    let now = Instant::now();
    let counts = now >= pace.begin && now < pace.end;
    match result {
        Ok(until) => {
            steps.settle(counts);
            tally.in_all += 1;
            if counts {
                tally.done += 1;
                tally.latency.record(until.saturating_duration_since(from));
                progress.record(now - pace.begin);
            }
        }
        Err(why) => {
            steps.settle(false);
            tally.failed(why, counts);
            progress.failed.fetch_add(u64::from(counts), Relaxed);
            tokio::time::sleep(FAILURE_PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_three_digits_and_are_never_lost() {
        let mut times = Times::new();
        for millis in 1..=1_000 {
            times.record(Duration::from_millis(millis));
        }
        times.record(Duration::from_secs(100_000));
        assert_eq!(times.count(), 1_001);
        assert!((times.percentile(50.0) - 501.0).abs() < 1.0 && (times.percentile(99.0) - 991.0).abs() < 1.0);
        assert!(times.percentile(100.0) >= 599_000.0, "a time beyond the limit counts as the longest");
    }

    #[test]
    fn the_longest_gap_may_be_the_first_or_the_last() {
        let gap = |moments: &[u64], end: u64| {
            let gap = gaps(moments, end)[0];
            (gap.from.as_millis(), gap.length.as_millis())
        };
        assert_eq!((gap(&[300, 400], 500), gap(&[10, 20], 500)), ((0, 300), (20, 480)));
        assert_eq!((gap(&[10, 400], 500), gap(&[], 500)), ((10, 390), (0, 500)));
    }

    #[test]
    fn the_longest_gaps_are_kept_wherever_they_are() {
        let kept = gaps(&[1, 11, 13, 43, 46, 66, 67, 107, 112, 162], 164);
        let lengths: Vec<u128> = kept.iter().map(|gap| gap.length.as_millis()).collect();
        assert_eq!(lengths, [50, 40, 30, 20, 10]);
        assert_eq!(kept[0].from, Duration::from_millis(112));
    }

    fn gaps(moments: &[u64], end: u64) -> Vec<Gap> {
        let progress = Progress::default();
        moments.iter().for_each(|millis| progress.record(Duration::from_millis(*millis)));
        progress.silent_until(Duration::from_millis(end));
        progress.gaps()
    }

    #[test]
    fn the_steps_of_a_failed_operation_do_not_count() {
        let mut steps = Steps::default();
        steps.took("acquire", Duration::from_millis(2));
        steps.settle(false);
        steps.took("acquire", Duration::from_millis(1));
        steps.settle(true);
        let [(name, times)] = &steps.all[..] else { panic!("{steps:?}") };
        assert_eq!((*name, times.count()), ("acquire", 1));
    }
}
