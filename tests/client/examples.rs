//! The examples of the client do what they claim.

use crate::{
    basics::{client_of, urls},
    harness::{Cluster, SHORT, run_exclusive, run_parallel},
};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

#[path = "../../crates/client/examples/fenced_sqlite.rs"]
#[expect(dead_code, reason = "its `main` is for people")]
mod fenced_sqlite;
#[path = "../../crates/client/examples/lock.rs"]
#[expect(dead_code, reason = "its `main` is for people")]
mod lock;
#[path = "../../crates/client/examples/migration.rs"]
#[expect(dead_code, reason = "its `main` is for people")]
mod migration;

#[test]
fn the_lock_example_writes_a_value_that_only_the_holder_can_write() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        lock::deploy(&urls(&cluster), "v1.7").await.unwrap();
        lock::deploy(&urls(&cluster), "v1.8").await.unwrap();
        let version = client_of(&cluster).nodes().get("/example/version").await.unwrap();
        assert_eq!(version.map(|version| version.bytes), Some(b"v1.8".to_vec()));
    });
}

#[test]
fn the_migration_example_migrates_once_however_many_copies_start() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let migrations = Arc::new(AtomicUsize::new(0));
        let starts = (0..10).map(|_| {
            let (urls, migrations) = (urls(&cluster), Arc::clone(&migrations));
            async move {
                let migrate = || async move {
                    migrations.fetch_add(1, Ordering::SeqCst);
                };
                migration::migrate_once(&urls, migrate).await.unwrap()
            }
        });
        let migrated = futures_util::future::join_all(starts).await;
        assert_eq!(migrations.load(Ordering::SeqCst), 1);
        assert_eq!(migrated.iter().filter(|migrated| **migrated).count(), 1);
    });
}

#[test]
fn the_sqlite_example_refuses_the_late_write_of_a_paused_holder() {
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("reports.sqlite");
        fenced_sqlite::prepare(&database).unwrap();
        let (holds, held) = tokio::sync::oneshot::channel();
        let (at, file) = (urls(&cluster), database.clone());
        let sleeps = std::thread::spawn(move || fenced_sqlite::sleeper(&at, &file, move || holds.send(()).unwrap()));
        held.await.unwrap();
        assert!(fenced_sqlite::next(&urls(&cluster), &database).await.unwrap(), "the next holder writes");
        let late = tokio::task::spawn_blocking(|| sleeps.join().unwrap().unwrap()).await.unwrap();
        assert_eq!(late, (false, false), "the paused holder knows of its loss, and its late write is refused");
        assert_eq!(fenced_sqlite::read(&database).unwrap(), "written by the next one");
    });
}
