//! What every part of a node uses: tasks, shutdown, metrics, memory, and long walks over the state.

pub(crate) mod alarms;
pub(crate) mod answer_time;
pub(crate) mod backups;
pub(crate) mod marked_state;
pub(crate) mod memory;
pub(crate) mod metrics;
pub(crate) mod pulse;
pub(crate) mod refused;
pub(crate) mod series;
pub(crate) mod shared_answers;
pub(crate) mod stop;
pub(crate) mod tasks;
#[cfg(test)]
pub(crate) mod test_clock;
pub(crate) mod walks;
