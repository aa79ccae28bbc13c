//! How a load is driven and measured: when operations begin, how long they take, how many there are. It knows nothing of what
//! is asked, so that the loads on other systems, in `bench/`, are driven by this very file.

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

/// Significant digits of a time.
const DIGITS: u8 = 3;
/// The longest time that is told from longer ones, in microseconds: ten minutes.
const MICROS_MAX: u64 = 600_000_000;
/// The pause of a client whose operation failed, so that a cluster that is away is not flooded.
const FAILURE_PAUSE: Duration = Duration::from_millis(10);
/// How long clients may take to finish what they are at when the time is over.
const TAIL_MAX: Duration = Duration::from_secs(30);
/// How many of the longest gaps are told: enough to tell one stall from many.
const GAPS: usize = 5;

/// How much load, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadPlan {
    /// Clients at work at a time.
    pub(crate) clients: usize,
    /// The time before anything counts.
    pub(crate) warmup: Duration,
    /// The time in which operations count that end in it.
    pub(crate) time: Duration,
    /// Operations a second, over all clients, that begin whether or not earlier ones are done. Without it each client begins
    /// the next when the last is done.
    pub(crate) rate: Option<f64>,
}

/// One client's operation, again and again.
pub(crate) trait Work: Send + 'static {
    /// Does it once. Answers with the moment at which what counts had been reached, which is the end of its latency; what it does
    /// after that is part of the operation, but not of the latency.
    ///
    /// # Errors
    /// Why it was not done, in words; the client goes on with the next.
    fn once(&mut self, steps: &mut Steps) -> impl Future<Output = Result<Instant, String>> + Send;
}

/// Times of one sort.
#[derive(Debug, Clone)]
pub(crate) struct Times(Histogram<u64>);

impl Times {
    /// None yet.
    pub(crate) fn new() -> Times {
        Times(Histogram::new_with_bounds(1, MICROS_MAX, DIGITS).expect("the bounds are constants in order"))
    }

    /// One more. What is longer than can be told apart counts as the longest.
    pub(crate) fn record(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_micros()).unwrap_or(MICROS_MAX).max(1));
    }

    /// With those of another.
    pub(crate) fn add(&mut self, other: &Times) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    /// How many.
    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time, in milliseconds, that so many percent do not exceed.
    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        self.0.value_at_percentile(percent) as f64 / 1_000.0
    }

    /// Its shape in milliseconds, for programs.
    pub(crate) fn json(&self) -> Value {
        let at = |percent: f64| self.percentile(percent);
        json!({
            "count": self.count(), "mean": round(self.0.mean() / 1_000.0), "min": self.0.min() as f64 / 1_000.0,
            "p50": at(50.0), "p90": at(90.0), "p99": at(99.0), "p99_9": at(99.9), "max": self.0.max() as f64 / 1_000.0,
        })
    }
}

/// To three decimals: microseconds, where it counts milliseconds.
pub(crate) fn round(number: f64) -> f64 {
    (number * 1_000.0).round() / 1_000.0
}

/// The times of the parts of operations, in the order in which they first came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Steps {
    all: Vec<(&'static str, Times)>,
    now: Vec<(&'static str, Duration)>,
}

impl Steps {
    /// A part of the operation at hand took so long. It counts if the operation does.
    pub(crate) fn took(&mut self, step: &'static str, time: Duration) {
        self.now.push((step, time));
    }

    fn settle(&mut self, counts: bool) {
        for (step, time) in std::mem::take(&mut self.now) {
            // Its place is made even if it does not count: while it warms up, and not all clients' at once when the time begins.
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

/// What all clients have done so far, for those who look on.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Operations that were done in the measured time.
    pub(crate) done: AtomicU64,
    /// Operations that failed in it.
    pub(crate) failed: AtomicU64,
    /// When the last one was done, in nanoseconds after the beginning.
    last: AtomicU64,
    /// The shortest of the gaps that are kept, in nanoseconds, once there are as many as are kept.
    bar: AtomicU64,
    /// The longest times in which none was done, the longest first.
    gaps: Mutex<Vec<Gap>>,
}

/// A time in which no client had done anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    /// When it began, after the beginning of the measured time.
    pub(crate) from: Duration,
    /// How long it was.
    pub(crate) length: Duration,
}

impl Progress {
    /// One more was done, so long after the beginning.
    fn did(&self, after: Duration) {
        self.done.fetch_add(1, Relaxed);
        self.silent_until(after);
    }

    /// Nothing was done from the last one until now.
    fn silent_until(&self, after: Duration) {
        let after = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        let last = self.last.fetch_max(after, Relaxed);
        let length = after.saturating_sub(last);
        if length > self.bar.load(Relaxed) {
            let mut gaps = self.gaps.lock();
            let (from, length) = (Duration::from_nanos(last), Duration::from_nanos(length));
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

/// When a client begins its operations.
#[derive(Debug, Clone, Copy)]
struct Pace {
    begin: Instant,
    end: Instant,
    /// Between two operations of one client, and the place of this client within it.
    every: Option<(Duration, Duration)>,
}

/// What came of one client's work, or of all.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Operations that ended well within the measured time.
    pub(crate) done: u64,
    /// Operations that failed within it.
    pub(crate) failed: u64,
    /// Operations that ended well at any time: also while it warmed up, and after the time.
    pub(crate) in_all: u64,
    /// Why the first one failed.
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

/// What came of a run.
#[derive(Debug)]
pub(crate) struct RunOutcome {
    /// What was asked for.
    pub(crate) plan: LoadPlan,
    /// What all clients did.
    pub(crate) tally: Tally,
    /// Processor time that this process used in the measured time.
    pub(crate) load_cpu: Duration,
    /// The longest parts of the measured time in which no client had done anything, the longest first.
    pub(crate) gaps: Vec<Gap>,
}

impl RunOutcome {
    /// Operations a second.
    pub(crate) fn per_second(&self) -> f64 {
        self.tally.done as f64 / self.plan.time.as_secs_f64()
    }

    /// For programs: one object.
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

/// Lets all clients work as planned. `watch` is run beside them with what they have done so far; `cpu` tells the processor time
/// that this process has used.
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
        // It may be one that never ends: the time does.
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
                tally.failed(format!("an operation was not done {TAIL_MAX:?} after the time"), true);
            }
        }
    }
    progress.silent_until(plan.time);
    RunOutcome { plan, tally, load_cpu, gaps: progress.gaps() }
}

async fn client<W: Work>(mut work: W, pace: Pace, progress: Arc<Progress>) -> Tally {
    let (mut tally, mut steps) = (Tally::new(), Steps::default());
    let mut intended = Instant::now() + pace.every.map_or(Duration::ZERO, |(_, offset)| offset);
    loop {
        if let Some((every, _)) = pace.every {
            tokio::time::sleep_until(intended.min(pace.end).into()).await;
            if intended >= pace.end {
                break;
            }
            // The latency counts from when it should have begun: what made it begin late is part of the waiting.
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
    // What should have begun and has not is late for ever: that must not look like a light load.
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
                progress.did(now - pace.begin);
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
    fn times_are_kept_to_three_digits_and_never_lost() {
        let mut times = Times::new();
        for millis in 1..=1_000 {
            times.record(Duration::from_millis(millis));
        }
        times.record(Duration::from_secs(100_000));
        assert_eq!(times.count(), 1_001);
        assert!((times.percentile(50.0) - 501.0).abs() < 1.0 && (times.percentile(99.0) - 991.0).abs() < 1.0);
        assert!(times.percentile(100.0) >= 599_000.0, "the longest is told as such");
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
        moments.iter().for_each(|millis| progress.did(Duration::from_millis(*millis)));
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
