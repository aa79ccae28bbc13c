//! Metrics of the servers, summed over all given endpoints.

use super::{target::Target, wire::WireAnswer};
use crate::remote::Failure;

/// Resident memory.
pub(super) const RESIDENT_BYTES: &str = "fairhold_process_resident_memory_bytes";
/// Processor time since the start.
pub(super) const CPU_SECONDS: &str = "fairhold_process_cpu_seconds_total";

/// The sum of a series over all given endpoints. A node without the series adds nothing.
pub(super) async fn sum(target: &Target, series: &str) -> Result<f64, Failure> {
    let mut sum = 0.0;
    for index in 0..target.connect.endpoint.len() {
        let answer = target.wire(index).send("GET", "/metrics", "", &[]).await.and_then(WireAnswer::success);
        let page = answer.map_err(Failure::Unavailable)?.body;
        sum += of(&String::from_utf8_lossy(&page), series).unwrap_or_default();
    }
    Ok(sum)
}

fn of(page: &str, series: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_found_by_its_full_name() {
        let page = format!("# HELP {CPU_SECONDS} of\n{CPU_SECONDS}_more 1\n{CPU_SECONDS} 2.5\n");
        assert_eq!((of(&page, CPU_SECONDS), of(&page, RESIDENT_BYTES)), (Some(2.5), None));
    }
}
