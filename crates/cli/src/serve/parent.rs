//! Stops this process when its parent has ended: standard input closes when the process at its other end is gone, for
//! any reason.

use std::{
    io::{self, Read},
    process,
    thread::{self, sleep},
    time::Duration,
};
use tokio::sync::watch;

/// How long an orderly shutdown may take; then the process exits anyway.
const ORPHAN_GRACE: Duration = Duration::from_secs(15);

/// Reports when the parent is gone.
#[derive(Debug, Clone)]
pub(super) struct ParentGone(watch::Receiver<bool>);

impl ParentGone {
    /// Waits for it.
    pub(super) async fn wait(mut self) {
        // An error means that the thread has ended, which happens only after its message.
        drop(self.0.wait_for(|gone| *gone).await);
    }
}

/// Watches standard input in its own thread, which also makes sure that the process exits.
pub(super) fn watch() -> io::Result<ParentGone> {
    let (sender, receiver) = watch::channel(false);
    thread::Builder::new().name("fairhold-parent".to_owned()).spawn(move || {
        read_to_end(io::stdin().lock());
        sender.send_replace(true);
        sleep(ORPHAN_GRACE);
        process::exit(1);
    })?;
    Ok(ParentGone(receiver))
}

/// Ignores all input. An error counts as the end.
fn read_to_end(mut input: impl Read) {
    let mut block = [0; 512];
    loop {
        match input.read(&mut block) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers each read with the next result.
    struct Script(Vec<io::Result<usize>>);

    impl Read for Script {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            self.0.remove(0)
        }
    }

    #[test]
    fn only_the_end_of_input_or_an_error_counts_as_the_end() {
        for last in [Ok(0), Err(io::ErrorKind::BrokenPipe.into())] {
            let mut script = Script(vec![Ok(512), Err(io::ErrorKind::Interrupted.into()), Ok(1), last]);
            read_to_end(&mut script);
            assert!(script.0.is_empty(), "it returned too early");
        }
    }
}
