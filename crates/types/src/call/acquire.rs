//! Requests for a grant: of one lock, of several, of an election, and of one lock in a batch.
//!
//! They have most options in common. Each option is written once, in its group below; a request lists its own fields and its
//! groups, and becomes an ordinary struct.

use super::{
    bounded::{LockList, MetaPairs},
    bounds::{ElectionValue, LockDelay, MaxHold, OwnerName, PermitLimit, Permits, Priority, Ttl, Wait, is_default},
};
use crate::{GrantId, LockName, Mode, SessionId};
use serde::{Deserialize, Serialize};

/// How a grant is held for its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HoldMode {
    /// For as long as the connection of the request lasts.
    Stream,
}

macro_rules! request_for_grant {
    // The options of a request that may wait, and that may come without a session.
    (@ $head:tt $own:tt { $($options:tt)* } waiting $($groups:ident)*) => {
        request_for_grant! { @ $head $own { $($options)*
            /// How long to wait in the queue.
            #[cfg_attr(feature = "schema", schemars(extend("default" = "0s")))]
            wait: Option<Wait>,
            /// How long the grant lives without a renewal; not with `session`.
            #[cfg_attr(feature = "schema", schemars(extend("default" = "30s")))]
            ttl: Option<Ttl>,
            /// The id of the session that will own the grant.
            session: Option<SessionId>,
            /// Hold the lock for as long as this request's connection lasts; not with `session`.
            hold: Option<HoldMode>,
        } $($groups)* }
    };
    // The options of a request for one lock.
    (@ $head:tt $own:tt { $($options:tt)* } one_lock $($groups:ident)*) => {
        request_for_grant! { @ $head $own { $($options)*
            /// Exclusive, or shared with other shared grants.
            #[cfg_attr(feature = "schema", schemars(extend("default" = "exclusive")))]
            mode: Option<Mode>,
            /// How many permits the lock has; the first grant that names a number sets it.
            #[cfg_attr(feature = "schema", schemars(extend("example" = 5)))]
            limit: Option<PermitLimit>,
            /// How many permits to take; at most `limit`.
            #[cfg_attr(feature = "schema", schemars(extend("default" = 1)))]
            permits: Option<Permits>,
            /// If the same session and `owner` already hold the lock: one more hold of the same grant, with its own id and the
            /// same token. The grant ends with its last hold.
            reentrant: bool,
        } $($groups)* }
    };
    // The options of every request.
    (@ $head:tt $own:tt { $($options:tt)* } every $($groups:ident)*) => {
        request_for_grant! { @ $head $own { $($options)*
            /// Your name, for people to read; by default the program's name and address.
            owner: Option<OwnerName>,
            /// A waiter of higher priority goes ahead of waiters of lower priority, but never ahead of one that waits
            /// for several locks, and at most 16 times ahead of the one that has waited longest.
            #[cfg_attr(feature = "schema", schemars(extend("default" = 0)))]
            priority: Option<Priority>,
            /// How long the lock stays blocked if its holder's session expires.
            #[cfg_attr(feature = "schema", schemars(extend("default" = "0s")))]
            lock_delay: Option<LockDelay>,
            /// The maximum hold time; after it, the grant ends as `expired`.
            max_hold: Option<MaxHold>,
            /// Key-value pairs, for people to read: at most 16, and 1024 bytes in total. In a query, pass one JSON
            /// object.
            meta: Option<MetaPairs>,
        } $($groups)* }
    };
    // All groups are collected: emit the struct, and `take_options`.
    (@ [$(#[$about:meta])* $name:ident] { $($own:tt)+ } { $($(#[$meta:meta])* $option:ident: $type:ty,)* }) => {
        request_for_grant! { [$(#[$about])* $name] { $($own)+ } { $($(#[$meta])* $option: $type,)* } }

        impl $name {
            /// Moves the options out, as those of a request for one lock.
            pub fn take_options(&mut self) -> Acquire {
                Acquire { $($option: std::mem::take(&mut self.$option),)* ..Acquire::default() }
            }
        }
    };
    (@ [$(#[$about:meta])* $name:ident] { } { $($(#[$meta:meta])* $option:ident: $type:ty,)* }) => {
        request_for_grant! { [$(#[$about])* #[derive(Default)] $name] { } { $($(#[$meta])* $option: $type,)* } }
    };
    ([$(#[$about:meta])* $name:ident] { $($own:tt)* } { $($(#[$meta:meta])* $option:ident: $type:ty,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($own)*
            $(
                $(#[$meta])*
                #[serde(default, skip_serializing_if = "is_default")]
                pub $option: $type,
            )*
        }
    };
    ($(#[$about:meta])* $name:ident { $($own:tt)* } with $($groups:ident)+) => {
        request_for_grant! { @ [$(#[$about])* $name] { $($own)* } { } $($groups)+ }
    };
}

request_for_grant! {
    /// `POST /v1/locks/{name}`
    Acquire {} with waiting one_lock every
}

request_for_grant! {
    /// `POST /v1/locks`: several locks in one step. Of a lock with a limit it takes one permit.
    AcquireMany {
        /// The locks, all different; the default `mode` is `exclusive`.
        pub locks: LockList,
    } with waiting every
}

request_for_grant! {
    /// `POST /v1/elections/{name}`: a candidacy, which is an exclusive grant with a value.
    Stand {
        /// The value that everyone can read while you lead.
        #[serde(default, skip_serializing_if = "is_default")]
        pub value: Option<ElectionValue>,
    } with waiting every
}

request_for_grant! {
    /// An acquire in a batch. It does not wait: it takes a place in the queue, or is refused.
    BatchAcquire {
        /// The grant's id, generated by the client: a ULID or a UUIDv7.
        pub id: GrantId,
        /// The lock's name.
        pub lock: LockName,
        /// The id of the session that will own the grant.
        pub session: SessionId,
        /// If the lock is not free, take a place in its queue instead of failing.
        #[serde(default, skip_serializing_if = "is_default")]
        pub queue: bool,
    } with one_lock every
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_is_not_given_is_omitted() {
        assert_eq!(serde_json::to_string(&Acquire::default()).unwrap(), "{}");
        let text = r#"{"wait":"30s","mode":"shared","reentrant":true,"owner":"ci-7","priority":-3,"meta":{"a":"b"}}"#;
        let read: Acquire = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }

    #[test]
    fn a_request_has_only_its_own_options() {
        assert!(serde_json::from_str::<Stand>(r#"{"value":"x","wait":1}"#).is_ok());
        for text in [r#"{"permits":1}"#, r#"{"mode":"shared"}"#, r#"{"locks":[]}"#] {
            assert!(serde_json::from_str::<Stand>(text).is_err(), "{text}");
        }
        let mut many: AcquireMany = serde_json::from_str(r#"{"locks":[{"name":"a"}],"ttl":5,"owner":"ci-7"}"#).unwrap();
        let options = many.take_options();
        assert_eq!((options.ttl.unwrap().millis(), options.owner.unwrap().as_str()), (5_000, "ci-7"));
    }
}
