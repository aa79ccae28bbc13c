//! Authentication: finds the caller of a request by its credential.

use crate::{
    edge::authenticator::Authenticator, edge::error::of_read, edge::headers, edge::params, edge::problem::Problem,
    edge::request::HttpPeer, edge::shown_token::ShownToken,
};
use axum::extract::Request;
use fairhold_access::{
    Principal, UserName,
    token::{BearerToken, TOKEN_PREFIX},
};
use fairhold_node::access::{AccessRefusal, Caller, Credential, CredentialFault};
use fairhold_state::access::AccessData;
use fairhold_trust::jwt::{JwtProviders, VerifiedJwt, fault::JwtFault, parts::looks_like_jwt};
use fairhold_types::{planted, time::WallMillis};
use http::{HeaderMap, Uri, header};

const SCHEME: &str = "Bearer";
/// Parameters that other servers take tokens from.
const TOKEN_PARAMETERS: [&str; 2] = ["access_token", "auth_token"];

/// The caller of a request while rights are enforced. A token goes before a certificate: a proxy may have a certificate of
/// its own, and passes on the tokens of others. Whether a certificate counts now is decided with each right.
pub(super) fn identify(
    authenticator: &Authenticator,
    request: &Request,
    access: &AccessData,
    now: WallMillis,
) -> Result<Caller, Problem> {
    refuse_token_in(request.uri())?;
    match bearer(request.headers())? {
        Some(shown) => by_token(authenticator, request, shown, (access, now)).map_err(refused),
        None => Ok(by_certificate(request).unwrap_or_else(|| Caller::new(Principal::anonymous(), Credential::Nothing))),
    }
}

/// The caller of a request while rights are not enforced: nothing is refused. Its principal is that of its token or
/// certificate, if that is valid.
pub(super) fn unenforced(authenticator: &Authenticator, request: &Request, access: &AccessData, now: WallMillis) -> Caller {
    let known = match bearer(request.headers()) {
        Ok(Some(shown)) => by_token(authenticator, request, shown, (access, now)).ok(),
        Ok(None) => by_certificate(request).filter(|caller| caller.check_credential(access, now).is_ok()),
        Err(_) => None,
    };
    known.map_or_else(|| Caller::new(Principal::anonymous(), Credential::Unread), Caller::unread)
}

/// The user that the certificate of the connection names.
fn by_certificate(request: &Request) -> Option<Caller> {
    let certified = request.extensions().get::<HttpPeer>()?.user()?;
    let user = UserName::parse(certified.name.as_str()).ok()?;
    let credential = Credential::Certificate { user: user.clone(), not_after: certified.not_after };
    Some(Caller::new(Principal::user(&user), credential))
}

/// The token that the request shows, if it has the header `Authorization`.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(credentials) = headers::text(headers, header::AUTHORIZATION)? else { return Ok(None) };
    let (scheme, shown) = credentials.split_once(' ').ok_or_else(|| refused(CredentialFault::Unknown))?;
    if scheme.eq_ignore_ascii_case(SCHEME) { Ok(Some(shown.trim())) } else { Err(refused(CredentialFault::Unknown)) }
}

/// Whether the request shows a well-formed token of a user.
pub(super) fn shows_token(headers: &HeaderMap) -> bool {
    bearer(headers).is_ok_and(|shown| shown.is_some_and(|shown| BearerToken::parse(shown).is_ok()))
}

fn by_token(
    authenticator: &Authenticator,
    request: &Request,
    shown: &str,
    (access, now): (&AccessData, WallMillis),
) -> Result<Caller, CredentialFault> {
    if planted::tells_tokens() {
        tracing::info!(shown, "a caller shows a token");
    }
    if !shown.starts_with(TOKEN_PREFIX) {
        return match authenticator.admin.caller(shown) {
            Some(caller) => Ok(caller),
            None => by_jwt(&authenticator.providers, shown, now),
        };
    }
    let peer = request.extensions().get::<HttpPeer>();
    let hash = peer.map_or_else(|| ShownToken::default().hash_of(shown), |peer| peer.token.hash_of(shown));
    let (number, record) = hash.and_then(|hash| access.token_with(&hash)).ok_or(CredentialFault::Unknown)?;
    if record.is_expired(now) {
        return Err(CredentialFault::Expired);
    }
    Ok(Caller::new(Principal::user(&record.user), Credential::Token(number)))
}

/// The caller that a provider vouches for.
fn by_jwt(providers: &JwtProviders, shown: &str, now: WallMillis) -> Result<Caller, CredentialFault> {
    let verified = providers.verify(shown, now).map_err(|fault| match fault {
        JwtFault::Unknown => CredentialFault::Unknown,
        JwtFault::BadSignature => CredentialFault::BadSignature,
        JwtFault::Expired => CredentialFault::Expired,
        JwtFault::NotYetValid => CredentialFault::NotYetValid,
        JwtFault::WrongAudience => CredentialFault::WrongAudience,
    })?;
    let VerifiedJwt { provider, subject, attributes, expires_at } = verified;
    let principal = Principal::parse(&format!("{provider}:{subject}")).map_err(|_| CredentialFault::Unknown)?;
    Ok(Caller::new(principal, Credential::Jwt { expires_at }).with_attributes(attributes))
}

fn refused(fault: CredentialFault) -> Problem {
    of_read(AccessRefusal::from(fault).into())
}

/// Refuses a token in the query: logs and histories keep URLs.
fn refuse_token_in(uri: &Uri) -> Result<(), Problem> {
    let Some(query) = uri.query() else { return Ok(()) };
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let is_token =
            |part: &str| params::decode(part).is_ok_and(|part| part.starts_with(TOKEN_PREFIX) || looks_like_jwt(&part));
        if is_token(name) || is_token(value) || params::decode(name).is_ok_and(|name| TOKEN_PARAMETERS.contains(&&*name)) {
            return Err(Problem::bad_request(
                "do not send a token in the URL, where logs and histories keep it: send the header \"Authorization: Bearer \
                 TOKEN\", and revoke this token",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::admin::Admin;
    use axum::body::Body;
    use fairhold_access::token::TokenHash;
    use fairhold_state::{
        State,
        command::{AccessChange, AccessRequester, ChangeAccess, Command},
    };
    use fairhold_trust::{client_port::CertifiedUser, jwt_for_tests, jwt_for_tests::TestIssuer};
    use fairhold_types::{ClusterId, cluster_version::ACCESS_SINCE};
    use http::HeaderValue;
    use serde_json::json;
    use std::net::Ipv4Addr;
    use tempfile::TempDir;

    const NOW: WallMillis = WallMillis(1_000_000);

    fn token(number: u8) -> BearerToken {
        BearerToken::from_random([number; 32])
    }

    /// What begins as a token and is as long as one. Its checksum is wrong.
    const NO_TOKEN: &str = "fht_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    /// A state with token 1, which does not expire, token 2, which expires at `NOW`, and the hash of a text that is no token.
    fn state() -> State {
        let mut state = State::new();
        state.apply(&Command::FormClusterAt { cluster: ClusterId(1), version: ACCESS_SINCE });
        let hashes = [(token(1).hash(), None), (token(2).hash(), Some(NOW)), (TokenHash::of_text(NO_TOKEN), None)];
        for (hash, expires_at) in hashes {
            let change = AccessChange::CreateToken { hash, user: "ci".parse().unwrap(), expires_at };
            let requester = AccessRequester { principal: Principal::file_admin(), client: String::new() };
            let command = Command::ChangeAccess(ChangeAccess { key: None, change, requester, at: WallMillis(0) });
            state.apply(&command).answer.result.unwrap();
        }
        state
    }

    #[test]
    fn a_text_with_the_registered_hash_but_without_the_checksum_of_a_token_is_none() {
        assert!(state().access().token_with(&TokenHash::of_text(NO_TOKEN)).is_some());
        assert_eq!(caller(&[format!("Bearer {NO_TOKEN}")], "/v1/locks"), Err((401, Some("unknown".to_owned()))));
    }

    fn authenticator() -> Authenticator {
        Authenticator::new(Admin::guarded(vec!["s3cret".to_owned(), "next".to_owned()]))
    }

    /// The provider `idp`, and its issuer.
    struct Provider {
        issuer: TestIssuer,
        authenticator: Authenticator,
        _folder: TempDir,
    }

    impl Provider {
        fn new() -> Provider {
            let (folder, issuer) = (tempfile::tempdir().unwrap(), TestIssuer::new("ES256", "1"));
            let providers = jwt_for_tests::provider(folder.path(), &[&issuer]);
            Provider { issuer, authenticator: authenticator().with_providers(providers), _folder: folder }
        }

        fn caller(&self, token: &str) -> Result<Caller, (u16, Option<String>)> {
            let value = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
            let request = Request::get("/v1/locks").header("authorization", value).body(Body::empty()).unwrap();
            identify(&self.authenticator, &request, state().access(), NOW).map_err(status_and_fault)
        }
    }

    fn status_and_fault(problem: Problem) -> (u16, Option<String>) {
        let problem = fairhold_types::problem::Problem::from(problem);
        (problem.status, problem.facts.credential.map(str::to_owned))
    }

    fn caller(headers: &[String], uri: &str) -> Result<(String, Credential), (u16, Option<String>)> {
        let request = headers.iter().fold(Request::get(uri), |request, value| request.header("authorization", value));
        identified(&request.body(Body::empty()).unwrap())
    }

    fn identified(request: &Request) -> Result<(String, Credential), (u16, Option<String>)> {
        match identify(&authenticator(), request, state().access(), NOW) {
            Ok(caller) => Ok((caller.principal().to_string(), caller.credential().clone())),
            Err(problem) => Err(status_and_fault(problem)),
        }
    }

    #[test]
    fn a_caller_is_known_by_its_token() {
        let of = |header: &str| caller(&[header.to_owned()], "/v1/locks");
        let user = Ok(("user:ci".to_owned(), Credential::Token(fairhold_access::token::AccessTokenNumber(1))));
        let file = Ok(("file:admin".to_owned(), Credential::File));
        let unknown = Err((401, Some("unknown".to_owned())));
        assert_eq!(caller(&[], "/v1/locks"), Ok(("anonymous".to_owned(), Credential::Nothing)));
        assert_eq!(of(&format!("Bearer {}", token(1).expose())), user);
        assert_eq!(of(&format!("bearer   {} ", token(1).expose())), user);
        assert_eq!(of("Bearer s3cret"), file);
        assert_eq!(of("Bearer next"), file, "each line of the file is a token");
        assert_eq!(of(&format!("Bearer {}", token(2).expose())), Err((401, Some("expired".to_owned()))));
        let mut mistyped = token(1).expose();
        mistyped.replace_range(10..11, "_");
        for wrong in [
            "Bearer",
            "Bearer ",
            "Bearer s3cre",
            "Bearer s3cret2",
            "Basic czNjcmV0",
            "s3cret",
            &format!("Bearer {}", token(3).expose()),
            &format!("Bearer {mistyped}"),
            &format!("Bearer {} {}", token(1).expose(), token(1).expose()),
            &format!("Basic {}", token(1).expose()),
        ] {
            assert_eq!(of(wrong), unknown, "{wrong}");
        }
        let twice = [format!("Bearer {}", token(1).expose()), "Bearer s3cret".to_owned()];
        assert_eq!(caller(&twice, "/v1/locks"), Err((400, None)));
    }

    /// A request on a connection with this user's certificate.
    fn certified(user: &str, not_after: WallMillis, authorization: Option<&str>) -> Request {
        let certified = CertifiedUser { name: user.parse().unwrap(), not_after };
        let peer = HttpPeer::at(Ipv4Addr::LOCALHOST.into()).with_user(Some(certified));
        let request = Request::get("/v1/locks").extension(peer);
        let request = authorization.into_iter().fold(request, |request, value| request.header("authorization", value));
        request.body(Body::empty()).unwrap()
    }

    #[test]
    fn a_caller_is_known_by_its_certificate_unless_it_shows_a_token() {
        let later = WallMillis(NOW.0 + 1);
        let credential = Credential::Certificate { user: "deploy".parse().unwrap(), not_after: later };
        assert_eq!(identified(&certified("deploy", later, None)), Ok(("user:deploy".to_owned(), credential)));
        let with_token = identified(&certified("deploy", later, Some(&format!("Bearer {}", token(1).expose()))));
        assert_eq!(with_token.map(|(principal, _)| principal), Ok("user:ci".to_owned()));
        let with_wrong_token = identified(&certified("deploy", later, Some("Bearer wrong")));
        assert_eq!(with_wrong_token, Err((401, Some("unknown".to_owned()))), "a certificate does not make up for a bad token");
    }

    #[test]
    fn a_caller_is_known_by_a_jwt_of_a_provider() {
        let provider = Provider::new();
        let claims = jwt_for_tests::claims(NOW);
        let caller = provider.caller(&provider.issuer.sign(&claims)).unwrap();
        let expires_at = WallMillis(NOW.0 / 1_000 * 1_000 + 600_000);
        assert_eq!((caller.principal().as_str(), caller.credential()), ("idp:ci", &Credential::Jwt { expires_at }));
        let service_account = json!("system:serviceaccount:ci:builder");
        for (claim, value, expected) in [
            ("sub", service_account, Ok("idp:system:serviceaccount:ci:builder".to_owned())),
            ("sub", json!("a*"), Err("unknown")),
            ("sub", json!("a\u{202e}b"), Err("unknown")),
            ("sub", json!("x".repeat(129)), Err("unknown")),
            ("exp", json!("soon"), Err("unknown")),
            ("exp", json!(0), Err("expired")),
            ("nbf", json!(NOW.0 / 1_000 + 60), Err("not_yet")),
            ("aud", json!("another"), Err("wrong_audience")),
        ] {
            let mut claims = claims.clone();
            claims[claim] = value;
            let found = provider.caller(&provider.issuer.sign(&claims)).map(|caller| caller.principal().to_string());
            assert_eq!(found, expected.map_err(|fault| (401, Some(fault.to_owned()))), "{claims}");
        }
        let stranger = TestIssuer::new("ES256", "1").sign(&claims);
        assert_eq!(provider.caller(&stranger).map(drop), Err((401, Some("bad_signature".to_owned()))));
        assert_eq!(caller_without_providers(&provider.issuer.sign(&claims)), Err((401, Some("unknown".to_owned()))));
    }

    fn caller_without_providers(token: &str) -> Result<(String, Credential), (u16, Option<String>)> {
        caller(&[format!("Bearer {token}")], "/v1/locks")
    }

    #[test]
    fn thousands_of_damaged_jwts_are_401_each() {
        let provider = Provider::new();
        let mutations = jwt_for_tests::mutations(&provider.issuer.sign(&jwt_for_tests::claims(NOW)));
        assert!(mutations.len() > 4_000, "{}", mutations.len());
        for mutation in mutations {
            let (status, fault) = provider.caller(&mutation).map(drop).expect_err(&mutation);
            assert!(status == 401 && matches!(fault.as_deref(), Some("unknown" | "bad_signature")), "{fault:?}: {mutation}");
        }
    }

    #[test]
    fn before_rights_are_enforced_only_a_valid_certificate_has_a_name() {
        for (not_after, principal) in [(WallMillis(NOW.0 + 1), "user:deploy"), (NOW, "anonymous")] {
            let caller = unenforced(&authenticator(), &certified("deploy", not_after, None), state().access(), NOW);
            assert_eq!((caller.principal().as_str(), caller.credential()), (principal, &Credential::Unread));
        }
    }

    #[test]
    fn a_token_in_the_url_is_refused() {
        let token = token(1).expose();
        for query in [
            format!("token={token}"),
            format!("a=b&x={token}"),
            format!("x=f%68{}", &token[2..]),
            "access_token=x".to_owned(),
            "auth%5Ftoken".to_owned(),
            token.clone(),
            format!("id_token={}", TestIssuer::new("ES256", "1").sign(&jwt_for_tests::claims(NOW))),
        ] {
            assert_eq!(caller(&[], &format!("/v1/locks?{query}")), Err((400, None)), "{query}");
        }
        assert!(caller(&[], "/v1/locks/a/fence?token=42").is_ok(), "a fencing token is no secret");
    }
}
