//! Authorization of calls for administrators: they require the token, if one is set.

use crate::{edge::headers, edge::problem::Problem};
use fairhold_node::access::{Caller, FileTokens};
use fairhold_types::Code;
use http::{HeaderMap, header};
use parking_lot::RwLock;
use std::sync::Arc;
use subtle::{Choice, ConstantTimeEq};

const SCHEME: &str = "Bearer";

/// The rule for administrators' calls. Clones share their tokens.
#[derive(Clone)]
pub struct Admin(Option<Arc<Guarding>>);

struct Guarding {
    tokens: RwLock<Vec<String>>,
    /// For the requests that are open when the tokens change.
    file: FileTokens,
}

/// The tokens are secrets.
impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Admin(guarded)" } else { "Admin(open)" })
    }
}

impl Admin {
    /// Administrators' calls are open to anyone who can reach the port.
    #[must_use]
    pub fn open() -> Admin {
        Admin(None)
    }

    /// Administrators' calls need one of these tokens.
    #[must_use]
    pub fn guarded(tokens: Vec<String>) -> Admin {
        Admin(Some(Arc::new(Guarding { tokens: RwLock::new(tokens), file: FileTokens::default() })))
    }

    /// Replaces the tokens: the streams and waits of their callers end. Without a token before, calls stay open. Returns
    /// whether the tokens differ from the old ones.
    pub fn replace_tokens(&self, tokens: Vec<String>) -> bool {
        let Some(guarding) = &self.0 else { return false };
        let mut current = guarding.tokens.write();
        let has_changed = *current != tokens;
        if has_changed {
            *current = tokens;
            guarding.file.replace();
        }
        has_changed
    }

    /// The caller that shows one of the tokens.
    pub(crate) fn caller(&self, shown: &str) -> Option<Caller> {
        let caller = self.0.as_ref()?.file.caller();
        self.has_token(shown).then_some(caller)
    }

    /// Whether this is one of the tokens. The comparison with each takes constant time.
    fn has_token(&self, shown: &str) -> bool {
        let Some(guarding) = &self.0 else { return false };
        let same = |token: &String| shown.as_bytes().ct_eq(token.as_bytes());
        let found = guarding.tokens.read().iter().map(same).fold(Choice::from(0), |found, same| found | same);
        found.into()
    }

    /// Accepts a request that has the token, or any request if no token is set. The comparison takes constant time.
    pub(crate) fn check(&self, request: &HeaderMap) -> Result<(), Problem> {
        if self.0.is_none() {
            return Ok(());
        }
        let missing = || {
            Problem::new(
                Code::Unauthenticated,
                "this call is for administrators: send \"Authorization: Bearer TOKEN\" with the token of the server's \
                 --admin-token-file, or pass --auth-token-file FILE to the fairhold command",
            )
        };
        let Some(credentials) = headers::text(request, header::AUTHORIZATION)? else { return Err(missing()) };
        let (scheme, shown) = credentials.split_once(' ').ok_or_else(missing)?;
        if !scheme.eq_ignore_ascii_case(SCHEME) {
            return Err(missing());
        }
        if self.has_token(shown.trim()) {
            Ok(())
        } else {
            Err(Problem::new(
                Code::Denied,
                "the token is not this server's administrator token: pass the token of the server's --admin-token-file",
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::response::IntoResponse;
    use fairhold_types::time::WallMillis;

    fn status(admin: &Admin, authorization: Option<&str>) -> u16 {
        let mut headers = HeaderMap::new();
        headers.extend(authorization.map(|text| (header::AUTHORIZATION, text.parse().unwrap())));
        match admin.check(&headers) {
            Ok(()) => 200,
            Err(problem) => {
                let response = problem.into_response();
                let asks = response.headers().get(header::WWW_AUTHENTICATE).map(|value| value.to_str().unwrap());
                assert_eq!(asks, (response.status() == 401).then_some("Bearer"));
                response.status().as_u16()
            }
        }
    }

    #[test]
    fn open_requests_lose_their_credential_only_if_the_tokens_have_changed() {
        let admin = Admin::guarded(vec!["s3cret".to_owned()]);
        let caller = admin.caller("s3cret").unwrap();
        let state = fairhold_state::State::new();
        let is_valid = || caller.check_credential(state.access(), WallMillis(0)).is_ok();
        assert!(!admin.replace_tokens(vec!["s3cret".to_owned()]));
        assert!(is_valid(), "the file was read again");
        assert!(admin.replace_tokens(vec!["other".to_owned()]));
        assert!(!is_valid() && admin.caller("s3cret").is_none());
        assert!(Admin::open().caller("s3cret").is_none());
    }

    #[test]
    fn only_the_token_is_accepted() {
        let admin = Admin::guarded(vec!["s3cret".to_owned()]);
        for (authorization, expected) in [
            (None, 401),
            (Some("Bearer s3cret"), 200),
            (Some("bearer  s3cret"), 200),
            (Some("Bearer s3cre"), 403),
            (Some("Bearer s3crets"), 403),
            (Some("Bearer "), 401),
            (Some("Bearer"), 401),
            (Some("Basic s3cret"), 401),
            (Some("s3cret"), 401),
        ] {
            assert_eq!(status(&admin, authorization), expected, "{authorization:?}");
        }
        let missing = fairhold_types::problem::Problem::from(admin.check(&HeaderMap::new()).unwrap_err());
        assert!(missing.detail.ends_with("or pass --auth-token-file FILE to the fairhold command"), "{}", missing.detail);
        admin.clone().replace_tokens(vec!["other".to_owned()]);
        assert_eq!((status(&admin, Some("Bearer s3cret")), status(&admin, Some("Bearer other"))), (403, 200));
        assert!(!format!("{admin:?}").contains("other"));
    }

    #[test]
    fn without_a_token_every_caller_is_an_administrator() {
        assert_eq!(status(&Admin::open(), None), 200);
        assert_eq!(status(&Admin::open(), Some("Bearer guess")), 200);
    }
}
