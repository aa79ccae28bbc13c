//! What a holder may do with a grant: change its mode, hold it twice, bound its hold.

use crate::{
    basics::client_of,
    harness::{Cluster, SHORT, run_parallel},
};
use fairhold_client::{Error, Guard, Lost};
use fairhold_types::{Code, FencingToken};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

async fn upgrade_or_release(reader: Guard) -> Result<(Guard, FencingToken), Error> {
    match reader.upgrade().await {
        Ok(token) => Ok((reader, token)),
        Err(refused) => {
            reader.release().await?;
            Err(refused)
        }
    }
}

#[test]
fn a_reader_can_become_the_writer_and_a_reader_again() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = client_of(&cluster);
        let reader = client.read_lock("table").await.unwrap();
        let other = client.read_lock("table").await.unwrap();
        let old = reader.token().unwrap();
        let busy = reader.upgrade().wait(Duration::ZERO).await.unwrap_err();
        assert!(matches!(busy, Error::LockHeld { .. }), "{busy:?}");
        let late = reader.upgrade().wait(SECOND / 2).await.unwrap_err();
        assert!(matches!(late, Error::WaitTimeout { .. }), "{late:?}");
        assert_eq!(reader.token().unwrap(), old);

        // The second upgrade is refused and released, so that the first one can succeed.
        let upgraded = tokio::join!(upgrade_or_release(reader), upgrade_or_release(other));
        let ((Ok((writer, token)), Err(refused)) | (Err(refused), Ok((writer, token)))) = upgraded else {
            panic!("one of two: {upgraded:?}");
        };
        assert!(matches!(refused, Error::Refused { code: Some(Code::WouldDeadlock), .. }), "{refused:?}");
        assert!(token > old && writer.token().unwrap() == token);
        assert!(matches!(client.read_lock("table").try_now().await, Err(Error::LockHeld { .. })));
        writer.put("/table", "written").await.unwrap();

        writer.downgrade().await.unwrap();
        assert_eq!(writer.token().unwrap(), token);
        let joined = client.read_lock("table").try_now().await.unwrap();
        writer.put("/table", "written again").await.unwrap();
        drop((writer, joined));
        client.settled().await;
    });
}

#[test]
fn an_owner_can_hold_twice_and_the_lock_is_free_after_both_releases() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = client_of(&cluster);
        let session = client.session().await.unwrap();
        let outer = session.lock("deploy").owner("ci-7").await.unwrap();
        let inner = session.lock("deploy").owner("ci-7").reentrant().await.unwrap();
        assert_eq!((outer.token(), outer.number()), (inner.token(), inner.number()));
        assert_ne!(outer.id(), inner.id());
        outer.release().await.unwrap();
        assert!(inner.is_held());
        assert!(matches!(client.lock("deploy").try_now().await, Err(Error::LockHeld { .. })));
        inner.release().await.unwrap();
        drop(client.lock("deploy").try_now().await.unwrap());
        client.settled().await;
    });
}

#[test]
fn a_lock_is_lost_after_its_maximum_hold_and_the_next_waiter_gets_it() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = client_of(&cluster);
        let guard = client.lock("deploy").max_hold(2 * SECOND).await.unwrap();
        let next = tokio::spawn(client.lock("deploy").max_hold(2 * SECOND).into_future());
        assert_eq!(guard.lost().await, Lost::Expired);
        let next = next.await.unwrap().unwrap();
        assert!(next.is_held(), "a waiter's time starts at its grant");
        assert_eq!(next.lost().await, Lost::Expired);
        drop((guard, next));
        client.settled().await;
    });
}
