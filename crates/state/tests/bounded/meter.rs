//! Checks that the processor time of a command grows with its counted steps, and with nothing else.
//!
//! Steps are counted by hand, so uncounted work, such as a walk over all holders, would never be noticed. Each command
//! is compared with the cost of a step in the same run on the same machine. The shortest of several runs counts: other
//! programs make a command slower, never faster.

use fairhold_state::{State, command::Command};
use rustix::time::{ClockId, clock_gettime};

/// How many times the usual cost a step may have. A walk over 100,000 items far exceeds it.
const RATIO_MAX: u64 = 30;
/// The same while the state is filled. Each command is then measured once, while other tests compete for the memory.
const FILLING_RATIO_MAX: u64 = 2 * RATIO_MAX;
/// Additional cost that any command may have, in steps.
const BASE: u64 = 20;
/// How many commands are measured together while the state is filled.
const TOGETHER: u64 = 1_000;
/// How often a command is measured.
const TIMES: usize = 5;

/// The processor time of this thread, in nanoseconds.
fn processor_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).expect("time goes forward")
}

/// Measures commands. The first thousand define the cost of a step.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    commands: u64,
    time: u64,
    steps: u64,
    /// The cost of the cheapest thousand commands, in time and in steps.
    usual: Option<(u64, u64)>,
}

impl Meter {
    fn is_too_expensive(&self, time: u64, steps: u64, ratio_max: u64) -> bool {
        let Some((usual_time, usual_steps)) = self.usual else { return false };
        u128::from(time) * u128::from(usual_steps) > u128::from(usual_time) * u128::from(steps * ratio_max)
    }

    /// Applies a command, and compares each thousand of them with the first.
    pub(crate) fn apply(&mut self, state: &mut State, command: Command) -> fairhold_state::command::Applied {
        let begun = processor_time();
        let applied = state.apply(&command);
        self.time += processor_time() - begun;
        self.steps += applied.steps + BASE;
        self.commands += 1;
        if self.commands == TOGETHER {
            let (time, steps, usual) = (self.time, self.steps, self.usual);
            let too_expensive = self.is_too_expensive(time, steps, FILLING_RATIO_MAX);
            assert!(!too_expensive, "{TOGETHER} commands took {time} ns for {steps} steps, but usually {usual:?}");
            let cheaper =
                usual.is_none_or(|(usual, of)| u128::from(time) * u128::from(of) < u128::from(usual) * u128::from(steps));
            *self = Meter { usual: if cheaper { Some((time, steps)) } else { usual }, ..Meter::default() };
        }
        applied
    }

    /// Returns a complaint if a command costs too much.
    pub(crate) fn complaint(&self, state: &State, command: &Command) -> Option<String> {
        let measure = |_| {
            let mut state = state.clone();
            let begun = processor_time();
            let applied = state.apply(command);
            (processor_time() - begun, applied.steps)
        };
        let (time, steps) = (0..TIMES).map(measure).min().expect("it was measured");
        let usual = self.usual.expect("a thousand commands were measured");
        self.is_too_expensive(time, steps + BASE, RATIO_MAX)
            .then(|| format!("{time} ns for {steps} steps; the usual is {usual:?}"))
    }

    /// The same for a read that returns `shown` items: each item counts as a step.
    pub(crate) fn complaint_of_read<T>(&self, shown: usize, read: impl Fn() -> T) -> Option<String> {
        let measure = |_| {
            let begun = processor_time();
            drop(std::hint::black_box(read()));
            processor_time() - begun
        };
        let time = (0..TIMES).map(measure).min().expect("it was measured");
        let usual = self.usual.expect("a thousand commands were measured");
        self.is_too_expensive(time, shown as u64 + BASE, RATIO_MAX).then(|| format!("{time} ns; the usual is {usual:?}"))
    }
}
