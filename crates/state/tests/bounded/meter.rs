//! Whether what a command costs in processor time grows with what it says that it costs in steps, and with nothing else.
//!
//! Steps are counted by hand, so work that nobody counts would never be seen: a walk over all holders, say. Everything is
//! compared with what a step costs in the same run on the same machine. The least of several times counts: other programs make a
//! command slower, never faster.

use fairhold_state::{State, command::Command};
use rustix::time::{ClockId, clock_gettime};

/// How many times as much as usual a step may cost. Walks over 100,000 of something are far beyond it.
const RATIO_MAX: u64 = 30;
/// What any command may cost besides, in steps.
const BASE: u64 = 20;
/// How many commands are measured together while the crowd gathers.
const TOGETHER: u64 = 1_000;
/// How often a command is measured.
const TIMES: usize = 5;

/// What this thread has used of the processor, in nanoseconds.
fn processor_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).expect("time goes forward")
}

/// Measures commands. The first thousand say what a step costs here.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    commands: u64,
    time: u64,
    steps: u64,
    /// What the cheapest thousand commands cost, in time and in steps.
    usual: Option<(u64, u64)>,
}

impl Meter {
    fn is_too_dear(&self, time: u64, steps: u64) -> bool {
        let Some((usual_time, usual_steps)) = self.usual else { return false };
        u128::from(time) * u128::from(usual_steps) > u128::from(usual_time) * u128::from(steps * RATIO_MAX)
    }

    /// Applies a command, and compares each thousand of them with the first.
    pub(crate) fn apply(&mut self, state: &mut State, command: Command) -> fairhold_state::command::Applied {
        let begun = processor_time();
        let applied = state.apply(command);
        self.time += processor_time() - begun;
        self.steps += applied.steps + BASE;
        self.commands += 1;
        if self.commands == TOGETHER {
            let (time, steps, usual) = (self.time, self.steps, self.usual);
            let dear = self.is_too_dear(time, steps);
            assert!(!dear, "{TOGETHER} commands took {time} ns for {steps} steps, and the usual is {usual:?}");
            let cheaper =
                usual.is_none_or(|(usual, of)| u128::from(time) * u128::from(of) < u128::from(usual) * u128::from(steps));
            *self = Meter { usual: if cheaper { Some((time, steps)) } else { usual }, ..Meter::default() };
        }
        applied
    }

    /// Says what is wrong with the cost of a command.
    pub(crate) fn complaint(&self, state: &State, command: &Command) -> Option<String> {
        let measure = |_| {
            let (mut state, command) = (state.clone(), command.clone());
            let begun = processor_time();
            let applied = state.apply(command);
            (processor_time() - begun, applied.steps)
        };
        let (time, steps) = (0..TIMES).map(measure).min().expect("it was measured");
        let usual = self.usual.expect("a thousand commands were measured");
        self.is_too_dear(time, steps + BASE).then(|| format!("{time} ns for {steps} steps; the usual is {usual:?}"))
    }

    /// The same for something that is read, and of which so much is shown: each piece counts as a step.
    pub(crate) fn complaint_of_read<T>(&self, shown: usize, read: impl Fn() -> T) -> Option<String> {
        let measure = |_| {
            let begun = processor_time();
            drop(std::hint::black_box(read()));
            processor_time() - begun
        };
        let time = (0..TIMES).map(measure).min().expect("it was measured");
        let usual = self.usual.expect("a thousand commands were measured");
        self.is_too_dear(time, shown as u64 + BASE).then(|| format!("{time} ns; the usual is {usual:?}"))
    }
}
