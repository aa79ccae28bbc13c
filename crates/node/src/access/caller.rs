//! The caller of a request: its identity, its credential, and what the request needs.

use super::{
    refusal::{AccessRefusal, CredentialFault},
    trail::AccessTrail,
};
use fairhold_access::{Attributes, Need, Principal, PrincipalKey, UserName, token::AccessTokenNumber};
use fairhold_state::{access::AccessData, command::ActOrigin};
use fairhold_types::{duration, limits::JWT_CLOCK_SKEW, time::WallMillis};
use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// What a caller showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// A line of this node's file.
    File,
    /// A token of the cluster.
    Token(AccessTokenNumber),
    /// A certificate of a user.
    Certificate {
        /// The user.
        user: UserName,
        /// When the certificate expires.
        not_after: WallMillis,
    },
    /// A JWT of a provider, whose signature and claims were verified.
    Jwt {
        /// When it expires.
        expires_at: WallMillis,
    },
    /// Nothing.
    Nothing,
    /// Something or nothing: rights were not enforced when the request began. As soon as they are, it must be sent again.
    Unread,
}

/// The tokens in the administrators' file of this node, for the requests that are open when the file changes. Clones are
/// the same.
#[derive(Debug, Clone, Default)]
pub struct FileTokens(Arc<AtomicU64>);

impl FileTokens {
    /// The tokens were replaced: credentials from before are not valid any more.
    pub fn replace(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// A caller that shows a token of the file. Take it before the token is compared.
    #[must_use]
    pub fn caller(&self) -> Caller {
        let file = Some((self.clone(), self.0.load(Ordering::SeqCst)));
        Caller { file, ..Caller::new(Principal::file_admin(), Credential::File) }
    }
}

/// A principal, and what its provider says about it. Its rights are a function of both.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallerIdentity {
    pub(super) principal: Principal,
    pub(super) attributes: Attributes,
}

impl CallerIdentity {
    /// A principal without attributes of a provider.
    pub(super) fn of(principal: &Principal) -> CallerIdentity {
        CallerIdentity { attributes: Attributes::of(principal, []), principal: principal.clone() }
    }
}

/// The caller of a request.
#[derive(Debug, Clone)]
pub struct Caller {
    pub(super) identity: CallerIdentity,
    pub(super) credential: Credential,
    /// The file of its token, and how often its tokens had been replaced.
    file: Option<(FileTokens, u64)>,
    /// What the request needs besides the needs of its commands and watches.
    pub(super) needs: Vec<Need<'static>>,
    /// Where to write down what was decided, if the audit log asks for it.
    pub(super) trail: Option<Arc<AccessTrail>>,
    /// The address and the id of the request, if it may be an administrative act.
    source: Option<Arc<(String, String)>>,
    /// Where it is, if that is known.
    network: Option<IpAddr>,
}

impl Caller {
    /// A caller with this credential.
    #[must_use]
    pub fn new(principal: Principal, credential: Credential) -> Caller {
        let identity = CallerIdentity::of(&principal);
        Caller { identity, credential, file: None, needs: Vec::new(), trail: None, source: None, network: None }
    }

    /// The same, with what its provider says about it, for `{…}` in patterns.
    #[must_use]
    pub fn with_attributes(mut self, further: impl IntoIterator<Item = (String, String)>) -> Caller {
        self.identity.attributes = Attributes::of(&self.identity.principal, further);
        self
    }

    /// The same, for a request that needs these rights.
    #[must_use]
    pub fn needing(self, needs: Vec<Need<'static>>) -> Caller {
        Caller { needs, ..self }
    }

    /// The same, for a request whose decisions this trail writes down.
    #[must_use]
    pub fn with_trail(self, trail: Option<Arc<AccessTrail>>) -> Caller {
        if let Some(trail) = &trail {
            trail.identified(self.principal(), self.credential != Credential::Unread);
        }
        Caller { trail, ..self }
    }

    /// The same, for a request from this address with this id. Only administrative acts need it, for the audit.
    #[must_use]
    pub fn with_source(self, address: &str, request: &str) -> Caller {
        Caller { source: Some(Arc::new((address.to_owned(), request.to_owned()))), ..self }
    }

    /// The same, in this network: the key under which its address is counted (`share_key`).
    #[must_use]
    pub fn with_network(self, network: IpAddr) -> Caller {
        Caller { network: Some(network), ..self }
    }

    /// The key under which its address is counted, if that is known.
    pub(crate) fn network(&self) -> Option<IpAddr> {
        self.network
    }

    /// Where its acts come from, for the audit.
    pub(crate) fn act_origin(&self) -> ActOrigin {
        let (address, request) = self.source.as_deref().cloned().unwrap_or_default();
        ActOrigin { principal: self.principal().clone(), address, request }
    }

    /// What stands for its principal in a guard.
    pub(super) fn key(&self) -> PrincipalKey {
        self.principal().key()
    }

    /// Its principal.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.identity.principal
    }

    /// Its credential.
    #[must_use]
    pub fn credential(&self) -> &Credential {
        &self.credential
    }

    /// The same caller of a request that began while rights were not enforced.
    #[must_use]
    pub fn unread(self) -> Caller {
        Caller { credential: Credential::Unread, ..self }
    }

    /// When its credential expires.
    pub(super) fn expires_at(&self, access: &AccessData) -> Option<WallMillis> {
        match &self.credential {
            Credential::Token(number) => access.token(*number)?.expires_at,
            Credential::Certificate { not_after, .. } => Some(*not_after),
            Credential::Jwt { expires_at } => Some(after_skew(*expires_at)),
            Credential::File | Credential::Nothing | Credential::Unread => None,
        }
    }

    /// Whether its credential is valid by this data, at this time.
    pub fn check_credential(&self, access: &AccessData, now: WallMillis) -> Result<(), AccessRefusal> {
        match &self.credential {
            Credential::File => match &self.file {
                Some((tokens, replaced)) if tokens.0.load(Ordering::SeqCst) != *replaced => Err(CredentialFault::Revoked.into()),
                Some(_) | None => Ok(()),
            },
            Credential::Nothing => Ok(()),
            Credential::Unread => Err(AccessRefusal::Stale),
            Credential::Certificate { user, .. } if access.is_disabled(user) => Err(CredentialFault::Disabled.into()),
            Credential::Certificate { not_after, .. } if now >= *not_after => Err(CredentialFault::Expired.into()),
            Credential::Certificate { .. } => Ok(()),
            Credential::Jwt { expires_at } => {
                if now < after_skew(*expires_at) {
                    Ok(())
                } else {
                    Err(CredentialFault::Expired.into())
                }
            }
            Credential::Token(number) => match access.token(*number) {
                Some(token) if token.is_expired(now) => Err(CredentialFault::Expired.into()),
                Some(_) => Ok(()),
                None => Err(CredentialFault::Revoked.into()),
            },
        }
    }
}

/// The end of a JWT for a node whose clock may be late.
fn after_skew(expires_at: WallMillis) -> WallMillis {
    WallMillis(expires_at.0.saturating_add(duration::millis(JWT_CLOCK_SKEW)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_state::{
        State,
        command::{AccessChange, AccessRequester, ChangeAccess, Command},
    };
    use fairhold_types::{ClusterId, cluster_version::ACCESS_SINCE};

    const ENDS: WallMillis = WallMillis(100_000);

    fn check(caller: &Caller, state: &State, now: u64) -> Result<(), AccessRefusal> {
        caller.check_credential(state.access(), WallMillis(now))
    }

    #[test]
    fn a_certificate_counts_until_it_expires_or_its_user_is_disabled() {
        let mut state = State::new();
        state.apply(&Command::FormClusterAt { cluster: ClusterId(1), version: ACCESS_SINCE });
        let user: UserName = "ci".parse().unwrap();
        let caller = Caller::new(Principal::user(&user), Credential::Certificate { user: user.clone(), not_after: ENDS });
        assert_eq!(check(&caller, &state, ENDS.0 - 1), Ok(()));
        assert_eq!(check(&caller, &state, ENDS.0), Err(CredentialFault::Expired.into()));
        let mut set_disabled = |disabled| {
            let change = AccessChange::SetUser { user: user.clone(), disabled, end_sessions: false };
            let requester = AccessRequester { principal: Principal::file_admin(), client: String::new() };
            let command = ChangeAccess { key: None, change, requester, at: WallMillis(0) };
            state.apply(&Command::ChangeAccess(command)).answer.result.unwrap();
            check(&caller, &state, ENDS.0 - 1)
        };
        assert_eq!(set_disabled(true), Err(CredentialFault::Disabled.into()));
        assert_eq!(set_disabled(false), Ok(()));
    }

    #[test]
    fn a_jwt_counts_until_its_end_by_the_clock_of_its_provider() {
        let caller = Caller::new(Principal::parse("k8s:ci").unwrap(), Credential::Jwt { expires_at: ENDS });
        let last = ENDS.0 + duration::millis(JWT_CLOCK_SKEW) - 1;
        assert_eq!(check(&caller, &State::new(), last), Ok(()));
        assert_eq!(check(&caller, &State::new(), last + 1), Err(CredentialFault::Expired.into()));
    }
}
