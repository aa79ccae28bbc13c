//! The simulator finds bugs: the first seeds find some of those that can be planted. `./fairhold hunt` plants all.

use std::process::Command;

#[test]
fn planted_bugs_of_the_state_machine_raft_sessions_members_rights_and_the_disk_are_found() {
    let bugs = [
        "OvertakesWaiters",
        "LosesAnEntry",
        "KeepaliveWithoutProof",
        "AcknowledgesUnflushed",
        "OldAnswersProveMore",
        "JoinReusesId",
        "ForgetsRemovals",
        "OutdatedGuardPasses",
        "WatchDecidedOnce",
    ];
    for bug in bugs {
        let arguments = ["--planted", bug, "--seeds", "0..300"];
        let output = Command::new(env!("CARGO_BIN_EXE_fairhold-sim")).args(arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains("planted bugs found 1 of 1"), "{text}");
    }
}
