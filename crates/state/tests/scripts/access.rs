//! The commands of scripts about access data. `ci` is `user:ci`, and `file` is the administrator by a file, which makes
//! all changes unless `as` names another one. The secret of a token is a number.
//!
//! ```text
//! role NAME RULE … [expected=7]          delete-role NAME [force] [expected=7]
//! bind ROLE SUBJECT                      unbind ROLE SUBJECT
//! user NAME disabled|enabled [end_sessions]
//! token USER [secret=1] [ttl=1h]         revoke-access 1 [end_sessions]        expire-tokens 1 2
//! enforce on|off                         all with [as=ann] [key=k]
//! ```
//!
//! A prefix is the guard of a command: `ci@7: acquire printer s1` was decided for `user:ci` by access data of revision 7,
//! `ci@now: …` by the data of the moment.

use crate::language::{Fallible, key, word};
use fairhold_access::{
    Principal, Subject, TenantNumber,
    token::{AccessTokenNumber, TokenHash},
};
use fairhold_state::{
    State,
    command::{AccessChange, AccessGuard, AccessRequester, ChangeAccess, Command},
};
use fairhold_types::{Revision, duration, time::WallMillis};
use goldenscript::ArgumentConsumer;

pub(crate) const NAMES: [&str; 9] =
    ["role", "delete-role", "bind", "unbind", "user", "token", "revoke-access", "expire-tokens", "enforce"];

pub(crate) fn principal(name: &str) -> Fallible<Principal> {
    match name {
        "file" => Ok(Principal::file_admin()),
        "anonymous" => Ok(Principal::anonymous()),
        name if name.contains(':') => Ok(Principal::parse(name)?),
        name => Ok(Principal::parse(&format!("user:{name}"))?),
    }
}

/// The guard that a prefix means, and the tenant of its principal.
pub(crate) fn guard(state: &State, prefix: &str) -> Fallible<(AccessGuard, Option<TenantNumber>)> {
    let (name, revision) = prefix.split_once('@').ok_or("a prefix is a user and a revision, as in ci@7")?;
    let access = if revision == "now" { state.access().revision() } else { Revision(revision.parse()?) };
    let principal = principal(name)?;
    Ok((AccessGuard { access, principal: principal.key() }, state.access().tenant_of(&principal)))
}

fn subject(name: &str) -> Fallible<Subject> {
    if name.contains(':') { Ok(Subject::parse(name)?) } else { Ok(Subject::exact(&principal(name)?)) }
}

pub(crate) fn expected(args: &mut ArgumentConsumer<'_>) -> Fallible<Option<Revision>> {
    Ok(args.take_key("expected").map(str::parse).transpose()?.map(Revision))
}

/// A change of the access data, with its key and its requester.
pub(crate) fn change(args: &mut ArgumentConsumer<'_>, change: AccessChange, at: WallMillis) -> Fallible<Command> {
    let key = key(args)?;
    let requester = args.take_key("as").map_or(Ok(Principal::file_admin()), principal)?;
    let client = format!("curl@{}", requester.name());
    Ok(Command::ChangeAccess(ChangeAccess { key, change, requester: AccessRequester { principal: requester, client }, at }))
}

pub(crate) fn read(name: &str, args: &mut ArgumentConsumer<'_>, at: WallMillis) -> Fallible<Command> {
    let made = match name {
        "expire-tokens" => {
            let numbers: Result<_, _> =
                std::iter::from_fn(|| args.next_pos()).map(|number| number.parse().map(AccessTokenNumber)).collect();
            return Ok(Command::ExpireTokens { tokens: numbers?, at });
        }
        "role" => {
            let (role, expected) = (word(args)?.parse()?, expected(args)?);
            let rules: Result<_, _> = std::iter::from_fn(|| args.next_pos()).map(str::parse).collect();
            AccessChange::PutRole { role, rules: rules?, expected }
        }
        "delete-role" => {
            let role = word(args)?.parse()?;
            AccessChange::DeleteRole { role, force: args.next_pos() == Some("force"), expected: expected(args)? }
        }
        "bind" => AccessChange::Bind { role: word(args)?.parse()?, subject: subject(word(args)?)? },
        "unbind" => AccessChange::Unbind { role: word(args)?.parse()?, subject: subject(word(args)?)? },
        "user" => {
            let (user, disabled) = (word(args)?.parse()?, word(args)? == "disabled");
            AccessChange::SetUser { user, disabled, end_sessions: args.next_pos() == Some("end_sessions") }
        }
        "token" => {
            let secret = args.take_key("secret").map_or(Ok(1), str::parse)?;
            let ttl = args.take_key("ttl").map(duration::parse).transpose()?;
            let expires_at = ttl.map(|ttl| u64::try_from(ttl.as_millis()).map(|ttl| WallMillis(at.0 + ttl))).transpose()?;
            AccessChange::CreateToken { hash: TokenHash([secret; 32]), user: word(args)?.parse()?, expires_at }
        }
        "revoke-access" => {
            let number = AccessTokenNumber(word(args)?.parse()?);
            AccessChange::RevokeToken { number, end_sessions: args.next_pos() == Some("end_sessions") }
        }
        "enforce" if word(args)? == "on" => AccessChange::Enable,
        _ => AccessChange::Disable,
    };
    change(args, made, at)
}

/// All access data, a line for each thing.
pub(crate) fn show(state: &State) -> String {
    let access = state.access();
    let mut lines = vec![format!(
        "{} @{}, narrowed @{}, {} tokens created",
        if access.is_on() { "on" } else { "off" },
        access.revision(),
        access.narrowed_at(),
        access.tokens_created()
    )];
    lines.extend(access.roles().map(|(name, role)| {
        let rules: Vec<String> = role.rules.iter().map(ToString::to_string).collect();
        format!("role {name} @{} by {}: {}", role.revision, role.by, rules.join(" | "))
    }));
    lines.extend(access.bindings().map(|(role, subject, binding)| format!("{subject} has {role} by {}", binding.by)));
    lines.extend(access.disabled_users().map(|(name, user)| format!("user {name} disabled by {}", user.by)));
    lines.extend(access.tokens_after(AccessTokenNumber(0)).map(|(number, token)| {
        let ends = token.expires_at.map(|at| format!(" until {}s", at.0 / 1_000)).unwrap_or_default();
        format!("token {number} of {} by {}{ends}", token.user, token.by)
    }));
    for session in state.sessions().filter(|session| access.opener(session.number).is_some()) {
        lines.push(format!("session {} has an opener", session.number));
    }
    lines.join("\n")
}
