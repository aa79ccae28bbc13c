//! The claims of a JWT: for whom it is, and when it counts. Its signature has been verified.

use super::fault::JwtFault;
use fairhold_types::{
    duration::millis,
    limits::{JWT_CLOCK_SKEW, JWT_LIFE_MAX},
    time::WallMillis,
};
use serde_json::Value;
use std::time::Duration;

/// The members of the claims that are read here.
const ISSUER: &str = "iss";
const SUBJECT: &str = "sub";
const AUDIENCE: &str = "aud";
const EXPIRES_AT: &str = "exp";
const NOT_BEFORE: &str = "nbf";
const ISSUED_AT: &str = "iat";

/// The issuer that a JWT names.
pub(super) fn issuer(claims: &Value) -> Option<&str> {
    text(claims, ISSUER)
}

/// A member that is a text, and not an empty one.
pub(super) fn text<'a>(claims: &'a Value, name: &str) -> Option<&'a str> {
    claims.get(name)?.as_str().filter(|text| !text.is_empty())
}

/// Checks that a JWT is for this audience and counts now. Returns when it expires.
pub(super) fn check(claims: &Value, audience: &str, now: WallMillis) -> Result<WallMillis, JwtFault> {
    text(claims, SUBJECT).ok_or(JwtFault::Unknown)?;
    if !is_for(claims, audience)? {
        return Err(JwtFault::WrongAudience);
    }
    let expires_at = time(claims, EXPIRES_AT)?.ok_or(JwtFault::Unknown)?;
    let (not_before, issued_at) = (time(claims, NOT_BEFORE)?, time(claims, ISSUED_AT)?);
    let skew = millis(JWT_CLOCK_SKEW);
    if now.0 >= expires_at.saturating_add(skew) {
        return Err(JwtFault::Expired);
    }
    let is_future = |begin: &u64| now.0.saturating_add(skew) < *begin;
    if not_before.as_ref().is_some_and(is_future) || issued_at.as_ref().is_some_and(is_future) {
        return Err(JwtFault::NotYetValid);
    }
    let left_max = millis(JWT_LIFE_MAX).saturating_add(skew);
    let is_too_long = issued_at.is_some_and(|begin| expires_at.saturating_sub(begin) > millis(JWT_LIFE_MAX));
    if is_too_long || expires_at.saturating_sub(now.0) > left_max {
        return Err(JwtFault::Unknown);
    }
    Ok(WallMillis(expires_at))
}

/// Whether the audience is this one, or a list with this one. Anything else than texts is malformed.
fn is_for(claims: &Value, audience: &str) -> Result<bool, JwtFault> {
    match claims.get(AUDIENCE) {
        Some(Value::String(given)) => Ok(given == audience),
        Some(Value::Array(given)) if given.iter().all(Value::is_string) => Ok(given.iter().any(|one| one == audience)),
        Some(Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
            Err(JwtFault::Unknown)
        }
    }
}

/// A time in milliseconds. The claims have seconds since 1970, sometimes with a fraction.
fn time(claims: &Value, name: &str) -> Result<Option<u64>, JwtFault> {
    let Some(given) = claims.get(name) else { return Ok(None) };
    let whole = || given.as_u64()?.checked_mul(1_000);
    let fraction = || Duration::try_from_secs_f64(given.as_f64()?).ok().map(millis);
    whole().or_else(fraction).map(Some).ok_or(JwtFault::Unknown)
}
