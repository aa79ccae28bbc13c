//! Small writes while you inject faults: `kill -9` of the leader, `fairhold cluster transfer-leader`, an upgrade. The
//! result is the longest time without a completed write.

use super::{
    kv::{self, KvOperation},
    load::{ClientKind, LoadArgs},
    measure::RunOutcome,
    target::Target,
};
use crate::remote::Failure;
use std::time::Duration;

/// How long a client waits for one node before it tries the next: well below the outages to measure.
const NODE_TIMEOUT: Duration = Duration::from_millis(250);
/// The size of each value.
const VALUE_BYTES: usize = 100;

/// Runs the workload.
pub(super) async fn run(target: &Target, load: &LoadArgs) -> Result<RunOutcome, Failure> {
    if load.client == ClientKind::Rust {
        return Err(Failure::Usage("failover supports only plain HTTP: leave out --client".to_owned()));
    }
    let args = kv::KvArgs { operation: KvOperation::Write, value_bytes: VALUE_BYTES, load: load.clone() };
    kv::run_within(target, &args, NODE_TIMEOUT).await
}
