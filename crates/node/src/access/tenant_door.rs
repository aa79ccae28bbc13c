//! What a tenant uses of this node: its rate of requests, and its open waits and watches. Each node counts its own, and a
//! restart forgets the counts.

use fairhold_access::{QuotaKind, TenantNumber, limits::TENANTS_MAX};
use openraft_rt::Instant;
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// A request, in the unit of the level.
const REQUEST: i64 = 1_000_000;

/// The requests that a tenant may make: a bucket that fills at its rate, up to its burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RequestBucket {
    /// In millionths of a request.
    level: i64,
    /// When it had this level, since the start of the node.
    at: Duration,
}

impl RequestBucket {
    fn full(burst: u32, now: Duration) -> RequestBucket {
        RequestBucket { level: i64::from(burst) * REQUEST, at: now }
    }

    /// Takes a request, if there is one.
    fn take(&mut self, rate: u32, burst: u32, now: Duration) -> bool {
        let elapsed = now.saturating_sub(self.at);
        // A millionth of a second brings a millionth of the requests of a second.
        let more = i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX).saturating_mul(i64::from(rate));
        self.level = self.level.saturating_add(more).min(i64::from(burst) * REQUEST);
        self.at = self.at.max(now);
        let has_one = self.level >= REQUEST;
        self.level -= if has_one { REQUEST } else { 0 };
        has_one
    }
}

/// What one tenant uses of this node.
#[derive(Debug, Clone, Copy, Default)]
struct NodeUse {
    requests: Option<RequestBucket>,
    waits: u32,
    watches: u32,
}

impl NodeUse {
    fn count(&mut self, kind: SlotKind) -> &mut u32 {
        match kind {
            SlotKind::Wait => &mut self.waits,
            SlotKind::Watch => &mut self.watches,
        }
    }
}

/// What a request keeps open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotKind {
    Wait,
    Watch,
}

impl SlotKind {
    pub(super) fn quota(self) -> QuotaKind {
        match self {
            SlotKind::Wait => QuotaKind::Waits,
            SlotKind::Watch => QuotaKind::Watches,
        }
    }
}

/// What all tenants use of this node.
#[derive(Debug)]
pub(crate) struct TenantDoor<I> {
    started_at: I,
    /// Consistent after every statement that can panic.
    tenants: Arc<Mutex<BTreeMap<TenantNumber, NodeUse>>>,
}

/// A wait or a watch of a tenant. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct TenantSlot {
    tenants: Arc<Mutex<BTreeMap<TenantNumber, NodeUse>>>,
    tenant: TenantNumber,
    kind: SlotKind,
}

impl Drop for TenantSlot {
    fn drop(&mut self) {
        if let Some(used) = self.tenants.lock().get_mut(&self.tenant) {
            *used.count(self.kind) -= 1;
        }
    }
}

impl<I: Instant> TenantDoor<I> {
    pub(crate) fn new() -> TenantDoor<I> {
        TenantDoor { started_at: I::now(), tenants: Arc::default() }
    }

    /// Takes a request of a tenant, if it has one left.
    pub(super) fn take_request(&self, tenant: TenantNumber, rate: u32, burst: u32) -> bool {
        let now = self.started_at.elapsed();
        let mut tenants = self.tenants.lock();
        // Tenants that were removed are forgotten before they are too many.
        if tenants.len() > 2 * TENANTS_MAX {
            tenants.retain(|_, used| used.waits > 0 || used.watches > 0);
        }
        let requests = &mut tenants.entry(tenant).or_default().requests;
        requests.get_or_insert_with(|| RequestBucket::full(burst, now)).take(rate, burst, now)
    }

    /// Opens a wait or a watch of a tenant, or tells how many it has.
    pub(super) fn open(&self, tenant: TenantNumber, kind: SlotKind, limit: Option<u32>) -> Result<TenantSlot, u32> {
        let mut tenants = self.tenants.lock();
        let count = tenants.entry(tenant).or_default().count(kind);
        if limit.is_some_and(|limit| *count >= limit) {
            return Err(*count);
        }
        *count += 1;
        Ok(TenantSlot { tenants: Arc::clone(&self.tenants), tenant, kind })
    }

    /// The open waits and watches of a tenant.
    pub(crate) fn open_of(&self, tenant: TenantNumber) -> (u64, u64) {
        let tenants = self.tenants.lock();
        tenants.get(&tenant).map_or((0, 0), |used| (used.waits.into(), used.watches.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openraft_rt::AsyncRuntime;
    use openraft_rt_tokio::TokioRuntime;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_bucket_gives_its_burst_at_once_and_then_its_rate() {
        let (rate, burst) = (10, 3);
        let mut bucket = RequestBucket::full(burst, ms(0));
        let taken = |bucket: &mut RequestBucket, now: Duration| (0..100).filter(|_| bucket.take(rate, burst, now)).count();
        for (now, count) in [(0, 3), (50, 0), (99, 0), (100, 1), (199, 0), (200, 1), (450, 2), (10_000, 3)] {
            assert_eq!(taken(&mut bucket, ms(now)), count, "at {now} ms");
        }
    }

    #[test]
    fn a_bucket_keeps_parts_of_a_request() {
        let mut bucket = RequestBucket::full(1, ms(0));
        let taken = (0..3_000).filter(|at| bucket.take(3, 1, ms(*at))).count();
        assert_eq!(taken, 9, "3 a second, and the first");
    }

    #[test]
    fn another_rate_counts_from_then_on() {
        let mut bucket = RequestBucket::full(1_000_000, ms(0));
        assert!(bucket.take(1_000_000, 1_000_000, ms(0)));
        assert!(bucket.take(1, 1, ms(1)), "the level falls to the burst");
        assert!(!bucket.take(1, 1, ms(2)));
        assert!(bucket.take(u32::MAX, u32::MAX, Duration::from_secs(u64::MAX / 2)));
    }

    #[test]
    fn waits_and_watches_count_until_they_are_dropped() {
        let door: TenantDoor<<TokioRuntime as AsyncRuntime>::Instant> = TenantDoor::new();
        let (one, other) = (TenantNumber(1), TenantNumber(2));
        let wait = door.open(one, SlotKind::Wait, Some(1)).unwrap();
        assert_eq!(door.open(one, SlotKind::Wait, Some(1)).unwrap_err(), 1);
        let further = (door.open(one, SlotKind::Watch, Some(1)).unwrap(), door.open(other, SlotKind::Wait, Some(1)).unwrap());
        let unlimited = door.open(one, SlotKind::Wait, None).unwrap();
        assert_eq!((door.open_of(one), door.open_of(other)), ((2, 1), (1, 0)));
        drop((wait, further, unlimited));
        assert_eq!((door.open_of(one), door.open_of(other)), ((0, 0), (0, 0)));
        assert!(door.open(one, SlotKind::Wait, Some(0)).is_err());
    }
}
