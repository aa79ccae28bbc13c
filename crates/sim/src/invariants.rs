//! The invariants, one file each. `plants` shows a violation to each: an invariant that cannot fail proves nothing.

mod agreement;
mod audit_chain;
mod beliefs;
mod bounds;
mod decisions;
mod delays;
mod durability;
mod echoes;
mod elections;
mod endings;
mod fences;
mod freshness;
mod holders;
mod invariant;
mod leases;
mod liveness;
mod machine;
mod members;
mod narrowings;
mod order;
#[cfg(test)]
mod plants;
mod punctual;
mod quotas;
mod registers;
mod tokens;
mod user_rights;
mod versions;
mod watchers_rights;
mod watches;

pub(crate) use invariant::Invariant;

use crate::facts::Physics;

/// All invariants.
pub(crate) fn all(physics: Physics) -> Vec<Box<dyn Invariant>> {
    vec![
        Box::new(machine::Machine),
        Box::new(holders::Holders::default()),
        Box::new(order::Order::default()),
        Box::new(tokens::Tokens::default()),
        Box::new(agreement::Agreement::default()),
        Box::new(durability::Durability::default()),
        Box::new(freshness::Freshness),
        Box::new(registers::Registers::new(physics)),
        Box::new(fences::Fences::default()),
        Box::new(leases::Leases::new(physics)),
        Box::new(beliefs::Beliefs::new(physics)),
        Box::new(delays::Delays::new(physics)),
        Box::new(watches::Watches::default()),
        Box::new(elections::Elections::default()),
        Box::new(bounds::Bounds::new(physics)),
        Box::new(echoes::Echoes::default()),
        Box::new(liveness::Liveness::default()),
        Box::new(endings::Endings),
        Box::new(punctual::Punctual::default()),
        Box::new(versions::Versions::default()),
        Box::new(members::Members::new(physics)),
        Box::new(audit_chain::AuditChain::default()),
        Box::new(user_rights::UserRights),
        Box::new(decisions::Decisions::default()),
        Box::new(narrowings::Narrowings::default()),
        Box::new(watchers_rights::WatchersRights::default()),
        Box::new(quotas::Quotas::default()),
    ]
}
