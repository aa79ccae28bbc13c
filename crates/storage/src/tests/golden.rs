//! The bytes on disk: a format change shows up as a diff. `FAIRHOLD_GOLDEN=write` rewrites them.

use super::{directory::known_members, entry, log_id, snapshots, vote};
use crate::{
    data_dir::{self, Identity},
    known_members, log_db, timing_file,
};
use fairhold_types::{ClusterId, Incarnation, Timing};
use std::{fmt::Write, path::Path};

fn check(name: &str, bytes: &[u8]) {
    let mut text = String::new();
    for line in bytes.chunks(32) {
        line.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
        text.push('\n');
    }
    let path = Path::new("../../proto/golden").join(name);
    if std::env::var_os("FAIRHOLD_GOLDEN").is_some_and(|value| value == "write") {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(
        text, golden,
        "{name}: the bytes on disk have changed. Older files must stay readable, or the version must change"
    );
}

#[test]
fn the_bytes_of_an_identity() {
    let identity = Identity {
        node: 3,
        incarnation: Incarnation(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff),
        cluster: Some(ClusterId(0xffee_ddcc_bbaa_9988_7766_5544_3322_1100)),
        has_log: true,
    };
    check("storage_identity_v1.hex", &data_dir::encode(&identity).unwrap());
}

#[test]
fn the_bytes_of_the_known_members_and_the_timing_profile() {
    check("storage_members_v1.hex", &known_members::encode(&known_members()).unwrap());
    check("storage_timing_v1.hex", &timing_file::encode(Timing::Wan).unwrap());
}

#[test]
fn the_bytes_of_a_log_entry() {
    check("storage_log_entry_v3.hex", &log_db::seal(&entry(3, 1000, 2)).unwrap());
}

#[test]
fn the_bytes_of_a_vote_and_a_log_id() {
    check("storage_vote_v3.hex", &log_db::seal(&vote(3)).unwrap());
    check("storage_log_id_v3.hex", &log_db::seal(&Some(log_id(3, 1000))).unwrap());
}

#[test]
fn the_bytes_of_a_snapshot() {
    check("storage_snapshot_v1.hex", &snapshots::bytes_of(&snapshots::image("state")));
}
