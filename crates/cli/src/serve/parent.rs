//! Ends this process with the one that started it: standard input ends when the process at its other end is gone, however it
//! went.

use std::{
    io::{self, Read},
    process,
    thread::{self, sleep},
    time::Duration,
};
use tokio::sync::watch;

/// How long the end in good order may take; then the process ends anyway.
const ORPHAN_GRACE: Duration = Duration::from_secs(15);

/// Tells when the parent is gone.
#[derive(Debug, Clone)]
pub(super) struct Gone(watch::Receiver<bool>);

impl Gone {
    /// Waits for it.
    pub(super) async fn wait(mut self) {
        // An error says that the thread is gone, which it never is before it said so.
        drop(self.0.wait_for(|gone| *gone).await);
    }
}

/// Watches in a thread of its own, which also makes sure that the process ends.
pub(super) fn watch() -> io::Result<Gone> {
    let (gone, told) = watch::channel(false);
    thread::Builder::new().name("fairhold-parent".to_owned()).spawn(move || {
        read_to_end(io::stdin().lock());
        gone.send_replace(true);
        sleep(ORPHAN_GRACE);
        process::exit(1);
    })?;
    Ok(Gone(told))
}

/// Whatever comes is not meant for a node. An error is an end too.
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

    /// Answers each read with the next of these.
    struct Script(Vec<io::Result<usize>>);

    impl Read for Script {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            self.0.remove(0)
        }
    }

    #[test]
    fn only_the_end_or_an_error_is_the_end() {
        for last in [Ok(0), Err(io::ErrorKind::BrokenPipe.into())] {
            let mut script = Script(vec![Ok(512), Err(io::ErrorKind::Interrupted.into()), Ok(1), last]);
            read_to_end(&mut script);
            assert!(script.0.is_empty(), "it ended too soon");
        }
    }
}
