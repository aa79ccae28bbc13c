//! The providers of JWTs: the tables `[jwt.NAME]` of the file.

use super::error::ConfigError;
use fairhold_access::{pattern::is_attribute_name, principal};
use fairhold_trust::jwt::JwtProviderConfig;
use fairhold_types::text::without_userinfo;
use reqwest::Url;
use serde::Deserialize;
use std::{collections::BTreeMap, path::PathBuf};

/// The keys of a table `[jwt.NAME]`.
pub(super) const JWT_KEYS: [&str; 5] = ["issuer", "audience", "jwks", "user-claim", "attributes"];

/// The most providers.
const PROVIDERS_MAX: usize = 16;
/// The most attributes of a provider.
const ATTRIBUTES_MAX: usize = 16;
/// The claim that has the name of the caller, unless the table says otherwise.
const SUBJECT: &str = "sub";

/// A table `[jwt.NAME]`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct JwtTable {
    issuer: String,
    audience: String,
    jwks: Option<PathBuf>,
    user_claim: Option<String>,
    attributes: BTreeMap<String, String>,
}

/// Checks the tables.
pub(super) fn providers(tables: BTreeMap<String, JwtTable>) -> Result<Vec<JwtProviderConfig>, ConfigError> {
    let mut providers: Vec<JwtProviderConfig> = Vec::new();
    let mut faults = Vec::new();
    for (name, table) in tables {
        let checked = if providers.len() < PROVIDERS_MAX {
            provider(&name, table)
        } else {
            Err(format!("there are at most {PROVIDERS_MAX} providers"))
        };
        let checked = checked.and_then(|provider| match providers.iter().find(|other| other.issuer == provider.issuer) {
            Some(other) => Err(format!("jwt.{} has the same issuer: the issuer decides whose keys count", other.name)),
            None => Ok(provider),
        });
        match checked {
            Ok(provider) => providers.push(provider),
            Err(fault) => faults.push(ConfigError::Jwt { name, fault }),
        }
    }
    if faults.is_empty() { Ok(providers) } else { Err(ConfigError::Several(faults)) }
}

fn provider(name: &str, table: JwtTable) -> Result<JwtProviderConfig, String> {
    let JwtTable { issuer, audience, jwks, user_claim, attributes } = table;
    principal::check_provider(name).map_err(|error| format!("the name of a provider is the kind of its principals: {error}"))?;
    let missing = |key: &str| format!("{key} is missing: a provider has issuer, audience and jwks");
    if attributes.len() > ATTRIBUTES_MAX {
        return Err(format!("a provider has at most {ATTRIBUTES_MAX} attributes"));
    }
    for (attribute, pointer) in &attributes {
        if !is_attribute_name(attribute) || attribute == principal::USER_ATTRIBUTE {
            return Err(format!("the attribute {attribute}: a name has lower-case letters, digits and _, and is not `user`"));
        }
        if !pointer.starts_with('/') {
            return Err(format!("the attribute {attribute}: `{pointer}` is no JSON pointer, such as /kubernetes.io/namespace"));
        }
    }
    let user_claim = user_claim.unwrap_or_else(|| SUBJECT.to_owned());
    match () {
        () if issuer.is_empty() => Err(missing("issuer")),
        () if has_userinfo(&issuer) => {
            Err("issuer has a user or a password: an issuer is a name that others read, so write it without".to_owned())
        }
        () if audience.is_empty() => Err(missing("audience")),
        () if user_claim.is_empty() => Err("user-claim is empty".to_owned()),
        () => Ok(JwtProviderConfig {
            name: name.to_owned(),
            issuer,
            audience,
            jwks: jwks.ok_or_else(|| missing("jwks"))?,
            user_claim,
            attributes: attributes.into_iter().collect(),
        }),
    }
}

/// Whether a URL has a user or a password. It would be a secret in a file that others may read.
fn has_userinfo(text: &str) -> bool {
    let is_in_url = |url: Url| !url.username().is_empty() || url.password().is_some();
    without_userinfo(text) != text || Url::parse(text).is_ok_and(is_in_url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<JwtProviderConfig>, String> {
        providers(toml::from_str(text).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_table_is_a_provider() {
        let text = "[k8s]\nissuer = \"https://kubernetes\"\naudience = \"fairhold\"\njwks = \"/etc/jwks.json\"\n\
                    attributes = { namespace = \"/kubernetes.io/namespace\" }\n\
                    [ci]\nissuer = \"https://ci\"\naudience = \"locks\"\njwks = \"ci.json\"\nuser-claim = \"repository\"\n";
        let parsed = parse(text).unwrap();
        let [ci, k8s] = &*parsed else { panic!("{parsed:?}") };
        assert_eq!((ci.name.as_str(), ci.user_claim.as_str(), ci.attributes.len()), ("ci", "repository", 0));
        assert_eq!((k8s.name.as_str(), k8s.user_claim.as_str()), ("k8s", "sub"));
        assert_eq!(k8s.attributes, [("namespace".to_owned(), "/kubernetes.io/namespace".to_owned())]);
    }

    #[test]
    fn an_issuer_has_no_password() {
        let with = |issuer: &str| parse(&format!("[ci]\nissuer = \"{issuer}\"\naudience = \"a\"\njwks = \"j\"\n"));
        for issuer in ["https://u:s3cret@x", "https://s3cret@x/y", "https:u:s3cret@x", "//u:s3cret@x"] {
            let error = with(issuer).unwrap_err();
            assert!(error.contains("jwt.ci") && error.contains("a user or a password") && !error.contains("s3cret"), "{error}");
        }
        for issuer in ["accounts.example.com", "https://x/a@b", "ci@x", "mailto:ci@x"] {
            assert!(with(issuer).is_ok(), "{issuer}");
        }
    }

    #[test]
    fn a_wrong_provider_is_refused_with_its_name() {
        let with = |name: &str, more: &str| format!("[{name}]\nissuer = \"i\"\naudience = \"a\"\njwks = \"j\"\n{more}\n");
        for (text, says) in [
            ("[k8s]\naudience = \"a\"\njwks = \"j\"".to_owned(), "jwt.k8s in the configuration file: issuer is missing"),
            ("[k8s]\nissuer = \"i\"\njwks = \"j\"".to_owned(), "audience is missing"),
            ("[k8s]\nissuer = \"i\"\naudience = \"a\"".to_owned(), "jwks is missing"),
            (with("user", ""), "jwt.user in the configuration file: the name of a provider"),
            (with("file", ""), "the name of a provider"),
            (with("anonymous", ""), "the name of a provider"),
            (with("K8s", ""), "the name of a provider"),
            (with("k8s", "attributes = { user = \"/x\" }"), "the attribute user: "),
            (with("k8s", "attributes = { Team = \"/x\" }"), "the attribute Team: "),
            (with("k8s", "attributes = { team = \"x\" }"), "`x` is no JSON pointer"),
            (with("k8s", "user-claim = \"\""), "user-claim is empty"),
            (with("a", "") + &with("b", ""), "jwt.b in the configuration file: jwt.a has the same issuer"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(says), "{says}: {error}");
        }
    }
}
