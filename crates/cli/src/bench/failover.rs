//! Small writes while nodes come and go: what counts is the longest time without a completed write. You hurt the
//! cluster meanwhile: `kill -9` of the leader, `fairhold cluster transfer-leader`, an upgrade.

use super::{
    kv::{self, KvOperation},
    load::{ClientKind, LoadArgs},
    measure::RunOutcome,
    target::Target,
};
use crate::remote::Failure;
use std::time::Duration;

/// How long a client waits at one node before it asks the next. What is measured is when the cluster writes again, so this is
/// well below that.
const PATIENCE: Duration = Duration::from_millis(250);
/// Bytes of each value.
const VALUE_BYTES: usize = 100;

/// Runs it.
pub(super) async fn run(ground: &Target, load: &LoadArgs) -> Result<RunOutcome, Failure> {
    if load.client == ClientKind::Rust {
        return Err(Failure::Usage("failover is measured over plain HTTP: leave --client out".to_owned()));
    }
    let args = kv::KvArgs { operation: KvOperation::Write, value_bytes: VALUE_BYTES, load: load.clone() };
    kv::run_within(ground, &args, PATIENCE).await
}
