//! The simulator is not blind: some of the bugs that can be planted are found by its first seeds. `./fairhold hunt` plants all.

use std::process::Command;

#[test]
fn planted_bugs_of_the_machine_of_raft_of_sessions_and_of_the_disk_are_found() {
    for bug in ["OvertakesWaiters", "LosesAnEntry", "KeepaliveWithoutProof", "AcknowledgesUnflushed", "OldAnswersProveMore"] {
        let arguments = ["--planted", bug, "--seeds", "0..300"];
        let output = Command::new(env!("CARGO_BIN_EXE_fairhold-sim")).args(arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains("planted bugs found 1 of 1"), "{text}");
    }
}
