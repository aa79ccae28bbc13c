//! Which commands go before others while they wait, and how heavy each is.

use fairhold_state::command::{Command, Meta, Operation};

/// What a command is counted with, besides the texts and values in it.
const COMMAND_BYTES: usize = 128;

/// Whether a command goes before others: what ends something, or sets how long it lives. All else begins or writes something.
pub(crate) fn goes_first(command: &Command) -> bool {
    match command {
        Command::Release { .. }
        | Command::Withdraw { .. }
        | Command::Abandon { .. }
        | Command::CloseSession { .. }
        | Command::ExpireSession { .. }
        | Command::EndCooling { .. }
        | Command::SetGrantTimeout { .. }
        | Command::Break(_)
        | Command::EndSession { .. }
        | Command::Downgrade { .. }
        | Command::EndUpgrade { .. }
        | Command::EndHolds { .. }
        | Command::Continue { .. }
        | Command::SetLock(_)
        | Command::Revoke(_)
        | Command::NoteCapacity { .. }
        | Command::FormCluster { .. } => true,
        Command::OpenSession(_)
        | Command::Acquire(_)
        | Command::Upgrade { .. }
        | Command::Transact(_)
        | Command::Proclaim(_)
        | Command::Forget { .. }
        | Command::ForgetHistory { .. }
        | Command::ForgetLocks { .. }
        | Command::NoteKey { .. }
        | Command::Sweep { .. } => false,
    }
}

/// Whether a command makes the state larger, or may: it is refused while the disk is nearly full. A command that ends or removes
/// something frees space, once a snapshot without it replaces the log.
pub(crate) fn needs_room(command: &Command) -> bool {
    command.creates() || matches!(command, Command::Upgrade { .. } | Command::Proclaim(_))
}

/// About how many bytes a command has.
pub(crate) fn weight(command: &Command) -> usize {
    let inside = if let Command::Transact(transact) = command {
        let operations = transact.then.iter().chain(transact.otherwise.iter().flatten());
        operations.map(Operation::weight).sum()
    } else if let Command::Acquire(acquire) = command {
        let value = acquire.value.as_ref().map_or(0, Vec::len);
        let locks: usize = acquire.wants.iter().map(|want| want.lock.as_str().len()).sum();
        value + locks + acquire.owner.text.len() + meta_bytes(&acquire.meta)
    } else if let Command::OpenSession(open) = command {
        open.name.len() + meta_bytes(&open.meta)
    } else if let Command::Proclaim(order) = command {
        order.value.len()
    } else {
        0
    };
    COMMAND_BYTES + inside
}

fn meta_bytes(meta: &Meta) -> usize {
    meta.iter().map(|(key, value)| key.len() + value.len()).sum()
}
