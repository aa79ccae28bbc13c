//! The versions of the formats on disk and between nodes, for operators who upgrade node by node.

use fairhold_raft::peer::{WIRE_VERSION, WIRE_VERSION_OLDEST};
use fairhold_types::SupportedVersions;

/// The output of `version`.
pub(crate) fn text() -> String {
    let versions = [
        ("fairhold", env!("CARGO_PKG_VERSION").to_owned()),
        ("cluster versions", SupportedVersions::OWN.to_string()),
        ("peer protocol", format!("{WIRE_VERSION_OLDEST} to {WIRE_VERSION}")),
        ("data directory format", fairhold_storage::data_dir::IDENTITY_FORMAT.to_string()),
        ("members file format", fairhold_storage::known_members::MEMBERS_FORMAT.to_string()),
        ("timing file format", fairhold_storage::timing_file::TIMING_FORMAT.to_string()),
        ("log store format", fairhold_storage::LOG_STORE_FORMAT.to_string()),
        ("snapshot file format", fairhold_storage::snapshot_files::SNAPSHOT_FILE_FORMAT.to_string()),
        ("state format", fairhold_state::snapshot::SNAPSHOT_FORMAT.to_string()),
    ];
    versions.iter().map(|(name, version)| format!("{name} {version}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_the_programs_own_version() {
        let first = format!("fairhold {}\n", env!("CARGO_PKG_VERSION"));
        assert!(text().starts_with(&first) && text().lines().count() == 9, "{}", text());
        let own = ["cluster versions 1 to 2", "peer protocol 3 to 4"];
        assert!(own.iter().all(|own| text().lines().any(|line| line == *own)), "{}", text());
    }
}
