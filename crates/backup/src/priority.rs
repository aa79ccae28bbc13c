//! The priority of a thread that makes or verifies a backup.

use rustix::process::{getpriority_process, setpriority_process};
use std::io;

/// Its niceness, as in nice(1): a tenth of the processor time of another busy thread.
const NICENESS: i32 = 10;

/// Lowers the priority of the calling thread, and of the threads that it starts from now on. A backup keeps a processor
/// busy for a second or longer, and the nodes on the same machine have requests to serve. There is no way back, so no
/// other work may follow on the thread.
pub fn lower_priority() -> io::Result<()> {
    // On Linux, this applies to one thread alone.
    let niceness = getpriority_process(None)?.max(NICENESS);
    Ok(setpriority_process(None, niceness)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn the_unit_of_systemd_permits_it() {
        let unit = include_str!("../../../deploy/systemd/fairhold.service");
        let filters: Vec<&str> = unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")).collect();
        // A later line changes what the earlier ones say.
        assert_eq!(filters.last(), Some(&"setpriority"), "{filters:?}");
    }

    #[test]
    fn a_thread_and_those_that_it_starts_get_a_low_priority_and_no_other_does() {
        let before = getpriority_process(None).unwrap();
        let lowered = thread::spawn(|| {
            lower_priority().unwrap();
            let started = thread::spawn(|| getpriority_process(None).unwrap());
            (getpriority_process(None).unwrap(), started.join().unwrap())
        });
        let niceness = before.max(NICENESS);
        assert_eq!(lowered.join().unwrap(), (niceness, niceness));
        assert_eq!(getpriority_process(None).unwrap(), before);
    }
}
