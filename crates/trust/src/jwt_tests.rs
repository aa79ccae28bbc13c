//! JWTs that count, and those that do not.

use crate::{
    file_check::FileCheck,
    jwt::{JwtProviderConfig, JwtProviders, VerifiedJwt, fault::JwtFault, parts::looks_like_jwt},
    jwt_for_tests::{AUDIENCE, TestIssuer, claims, config, jwks, mutations, provider, with_mac},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use fairhold_types::time::WallMillis;
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

const NOW: WallMillis = WallMillis(1_800_000_000_000);
const SECONDS: u64 = NOW.0 / 1_000;

/// One provider with one key, and its issuer.
struct Setup {
    folder: TempDir,
    issuer: TestIssuer,
    providers: JwtProviders,
}

impl Setup {
    fn new() -> Setup {
        let (folder, issuer) = (tempfile::tempdir().unwrap(), TestIssuer::new("ES256", "1"));
        let providers = provider(folder.path(), &[&issuer]);
        Setup { folder, issuer, providers }
    }

    fn verify(&self, token: &str) -> Result<VerifiedJwt, JwtFault> {
        self.providers.verify(token, NOW)
    }

    /// What the node says to valid claims with these members instead; `null` removes one.
    fn with(&self, changes: &Value) -> Result<VerifiedJwt, JwtFault> {
        self.verify(&self.issuer.sign(&changed(claims(NOW), changes)))
    }

    /// What it says to a header with these members instead.
    fn with_header(&self, changes: &Value) -> Result<VerifiedJwt, JwtFault> {
        let header = changed(self.issuer.header(), changes);
        self.verify(&self.issuer.sign_text(&header.to_string(), &claims(NOW).to_string()))
    }
}

fn changed(mut object: Value, changes: &Value) -> Value {
    for (name, value) in changes.as_object().unwrap() {
        object.as_object_mut().unwrap().remove(name);
        if !value.is_null() {
            object[name] = value.clone();
        }
    }
    object
}

#[test]
fn a_jwt_counts_by_each_of_five_algorithms() {
    for algorithm in ["RS256", "PS256", "ES256", "ES384", "EdDSA"] {
        let (folder, issuer) = (tempfile::tempdir().unwrap(), TestIssuer::new(algorithm, "1"));
        let providers = provider(folder.path(), &[&issuer]);
        let verified = providers.verify(&issuer.sign(&claims(NOW)), NOW);
        let expected = VerifiedJwt {
            provider: "idp".to_owned(),
            subject: "ci".to_owned(),
            attributes: Vec::new(),
            expires_at: WallMillis(NOW.0 + 600_000),
        };
        assert_eq!(verified, Ok(expected), "{algorithm}");
        let other = TestIssuer::new(algorithm, "1");
        assert_eq!(providers.verify(&other.sign(&claims(NOW)), NOW), Err(JwtFault::BadSignature), "{algorithm}");
    }
}

#[test]
fn neither_no_algorithm_nor_a_mac_counts() {
    let setup = Setup::new();
    let valid = setup.issuer.sign(&claims(NOW));
    let (message, signature) = valid.rsplit_once('.').unwrap();
    let claims_part = message.split_once('.').unwrap().1;
    for alg in ["none", "None", "NONE", "", "HS256", "HS384", "HS512", "RS384", "RS512", "PS512", "ES512", "ES256K", "es256"] {
        let header = URL_SAFE_NO_PAD.encode(json!({ "alg": alg, "kid": "1" }).to_string());
        for token in [format!("{header}.{claims_part}."), format!("{header}.{claims_part}.{signature}")] {
            assert_eq!(setup.verify(&token), Err(JwtFault::Unknown), "{alg}");
        }
    }
    let jwk = setup.issuer.jwk();
    let point: Vec<u8> = [&jwk["x"], &jwk["y"]].iter().flat_map(|part| decode(part)).collect();
    let secrets =
        [jwk.to_string().into_bytes(), jwks(&[&setup.issuer]).into_bytes(), point.clone(), [&[4], &*point].concat(), Vec::new()];
    for secret in secrets {
        for alg in ["HS256", "ES256", "RS256"] {
            let token = with_mac(&json!({ "alg": alg, "kid": "1" }), &claims(NOW), &secret);
            let fault = if alg == "ES256" { JwtFault::BadSignature } else { JwtFault::Unknown };
            assert_eq!(setup.verify(&token), Err(fault), "{alg}");
        }
    }
}

fn decode(text: &Value) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text.as_str().unwrap()).unwrap()
}

#[test]
fn a_key_verifies_only_by_its_own_algorithm() {
    let folder = tempfile::tempdir().unwrap();
    let (rsa, p256, p384) = (TestIssuer::new("RS256", "r"), TestIssuer::new("ES256", "a"), TestIssuer::new("ES384", "b"));
    let providers = provider(folder.path(), &[&rsa, &p256, &p384]);
    for (issuer, alg, kid) in [(&p256, "ES384", "a"), (&p384, "ES256", "b"), (&rsa, "ES256", "r"), (&p256, "RS256", "a")] {
        let header = json!({ "alg": alg, "kid": kid });
        let token = issuer.sign_text(&header.to_string(), &claims(NOW).to_string());
        assert_eq!(providers.verify(&token, NOW), Err(JwtFault::Unknown), "{alg} {kid}");
    }
    let mut restricted = rsa.jwk();
    restricted["alg"] = "PS256".into();
    fs::write(folder.path().join("jwks.json"), json!({ "keys": [restricted] }).to_string()).unwrap();
    providers.key_sets().iter().for_each(|keys| assert_eq!(keys.check(), FileCheck::Replaced));
    assert_eq!(providers.verify(&rsa.sign(&claims(NOW)), NOW), Err(JwtFault::Unknown), "the key is for PS256 alone");
}

#[test]
fn the_key_is_the_one_that_the_jwt_names() {
    let setup = Setup::new();
    for header in [json!({}), json!({ "kid": null }), json!({ "typ": null }), json!({ "typ": "at+jwt", "cty": "x" })] {
        assert!(setup.with_header(&header).is_ok(), "{header}: with one key, a JWT need not name it");
    }
    for kid in [json!("2"), json!("../../etc/passwd"), json!("/dev/null"), json!("' OR 1=1"), json!(""), json!(1), json!(["1"])] {
        assert_eq!(setup.with_header(&json!({ "kid": kid })), Err(JwtFault::Unknown), "{kid}");
    }
    let other = TestIssuer::new("ES256", "2");
    let providers = provider(setup.folder.path(), &[&setup.issuer, &other]);
    let signed = |header: &Value| {
        let header = changed(setup.issuer.header(), header);
        providers.verify(&setup.issuer.sign_text(&header.to_string(), &claims(NOW).to_string()), NOW).map(drop)
    };
    assert_eq!(signed(&json!({})), Ok(()));
    assert_eq!(signed(&json!({ "kid": null })), Err(JwtFault::Unknown), "with two keys, it must name one");
    assert_eq!(signed(&json!({ "kid": "2" })), Err(JwtFault::BadSignature));
}

#[test]
fn a_jwt_does_not_vouch_for_its_own_key() {
    let setup = Setup::new();
    let stranger = TestIssuer::new("ES256", "1");
    let own = json!({ "jwk": stranger.jwk(), "jku": "https://stranger.test/jwks", "x5u": "https://stranger.test", "x5c": ["x"] });
    let header = changed(stranger.header(), &own);
    let token = stranger.sign_text(&header.to_string(), &claims(NOW).to_string());
    assert_eq!(setup.verify(&token), Err(JwtFault::BadSignature));
    assert!(setup.with_header(&own).is_ok(), "what it says about keys is not read");
    for crit in [json!(["b64"]), json!([]), json!("exp")] {
        assert_eq!(setup.with_header(&json!({ "crit": crit, "b64": false })), Err(JwtFault::Unknown), "{crit}");
    }
    let twice = r#"{"alg":"ES256","alg":"none","kid":"1"}"#;
    let token = setup.issuer.sign_text(twice, &claims(NOW).to_string());
    assert_eq!(setup.verify(&token), Err(JwtFault::Unknown));
}

#[test]
fn the_claims_must_be_for_this_cluster() {
    let setup = Setup::new();
    for (changes, expected) in [
        (json!({ "aud": [AUDIENCE] }), Ok(())),
        (json!({ "aud": ["other", AUDIENCE] }), Ok(())),
        (json!({ "aud": null }), Err(JwtFault::Unknown)),
        (json!({ "aud": 7 }), Err(JwtFault::Unknown)),
        (json!({ "aud": [AUDIENCE, 7] }), Err(JwtFault::Unknown)),
        (json!({ "aud": { "is": AUDIENCE } }), Err(JwtFault::Unknown)),
        (json!({ "aud": [] }), Err(JwtFault::WrongAudience)),
        (json!({ "aud": "other" }), Err(JwtFault::WrongAudience)),
        (json!({ "aud": "Fairhold" }), Err(JwtFault::WrongAudience)),
        (json!({ "aud": ["fairhold2"] }), Err(JwtFault::WrongAudience)),
        (json!({ "iss": null }), Err(JwtFault::Unknown)),
        (json!({ "iss": "https://issuer.test/" }), Err(JwtFault::Unknown)),
        (json!({ "iss": ["https://issuer.test"] }), Err(JwtFault::Unknown)),
        (json!({ "sub": null }), Err(JwtFault::Unknown)),
        (json!({ "sub": "" }), Err(JwtFault::Unknown)),
        (json!({ "sub": 7 }), Err(JwtFault::Unknown)),
    ] {
        assert_eq!(setup.with(&changes).map(drop), expected, "{changes}");
    }
}

#[test]
fn a_jwt_counts_for_a_day_at_most_and_within_its_time() {
    const DAY: u64 = 24 * 3_600;
    let setup = Setup::new();
    for (changes, expected) in [
        (json!({ "exp": SECONDS - 29 }), Ok(())),
        (json!({ "exp": SECONDS - 30 }), Err(JwtFault::Expired)),
        (json!({ "exp": 0 }), Err(JwtFault::Expired)),
        (json!({ "exp": null }), Err(JwtFault::Unknown)),
        (json!({ "exp": (SECONDS + 600).to_string() }), Err(JwtFault::Unknown)),
        (json!({ "exp": NOW.0 + 600_000 }), Err(JwtFault::Unknown)),
        (json!({ "exp": SECONDS + 3_650 * DAY }), Err(JwtFault::Unknown)),
        (json!({ "exp": u64::MAX }), Err(JwtFault::Unknown)),
        (json!({ "exp": 1e300 }), Err(JwtFault::Unknown)),
        (json!({ "exp": -5 }), Err(JwtFault::Unknown)),
        (json!({ "exp": true }), Err(JwtFault::Unknown)),
        (json!({ "exp": [SECONDS + 600] }), Err(JwtFault::Unknown)),
        (json!({ "exp": SECONDS as f64 + 600.5 }), Ok(())),
        (json!({ "exp": SECONDS + DAY }), Ok(())),
        (json!({ "exp": SECONDS + DAY + 1 }), Err(JwtFault::Unknown)),
        (json!({ "exp": SECONDS + DAY + 30, "iat": null }), Ok(())),
        (json!({ "exp": SECONDS + DAY + 31, "iat": null }), Err(JwtFault::Unknown)),
        (json!({ "exp": SECONDS + 600, "iat": SECONDS - DAY }), Err(JwtFault::Unknown)),
        (json!({ "iat": "yesterday" }), Err(JwtFault::Unknown)),
        (json!({ "nbf": null, "iat": null }), Ok(())),
        (json!({ "nbf": SECONDS + 30 }), Ok(())),
        (json!({ "nbf": SECONDS + 31 }), Err(JwtFault::NotYetValid)),
        (json!({ "iat": SECONDS + 31 }), Err(JwtFault::NotYetValid)),
        (json!({ "nbf": "now" }), Err(JwtFault::Unknown)),
    ] {
        assert_eq!(setup.with(&changes).map(drop), expected, "{changes}");
    }
}

#[test]
fn a_forged_jwt_learns_nothing_of_its_claims() {
    let setup = Setup::new();
    let stranger = TestIssuer::new("ES256", "1");
    for changes in [json!({ "exp": 0 }), json!({ "aud": "other" }), json!({ "nbf": SECONDS + 900 }), json!({ "sub": null })] {
        let token = stranger.sign(&changed(claims(NOW), &changes));
        assert_eq!(setup.verify(&token), Err(JwtFault::BadSignature), "{changes}");
    }
}

#[test]
fn a_text_of_another_form_is_no_jwt() {
    let setup = Setup::new();
    let valid = setup.issuer.sign(&claims(NOW));
    let [header, payload, signature] = valid.split('.').collect::<Vec<_>>()[..] else { panic!("{valid}") };
    let as_json = json!({ "protected": header, "payload": payload, "signatures": [{ "signature": signature }] }).to_string();
    let long_claims = changed(claims(NOW), &json!({ "more": "x".repeat(7_000) }));
    let long = setup.issuer.sign(&long_claims);
    for text in [
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        "...".to_owned(),
        format!("{valid}.{signature}"),
        format!("{valid}."),
        format!("{header}.{payload}"),
        format!("{header}..{signature}"),
        format!(".{payload}.{signature}"),
        format!("{valid} {valid}"),
        format!("{header}=.{payload}.{signature}"),
        setup.issuer.sign_text("{\"alg\":\"ES256\",\"kid\":\"1\"} x", &claims(NOW).to_string()),
        setup.issuer.sign_text("[]", &claims(NOW).to_string()),
        setup.issuer.sign_text("\u{feff}{\"alg\":\"ES256\"}", &claims(NOW).to_string()),
        setup.issuer.sign_text(&setup.issuer.header().to_string(), &"[".repeat(4_000)),
        setup.issuer.sign_text(&setup.issuer.header().to_string(), "7"),
        as_json,
        long,
        "x".repeat(5_000_000),
        ".".repeat(5_000_000),
    ] {
        assert_eq!(setup.verify(&text), Err(JwtFault::Unknown), "{} bytes", text.len());
    }
    for wrong in ["", "AAAA", "%", &format!("{signature}\n"), &format!("{signature}==")] {
        assert_eq!(setup.verify(&format!("{header}.{payload}.{wrong}")), Err(JwtFault::BadSignature), "{wrong}");
    }
    assert_eq!(JwtProviders::default().verify(&valid, NOW), Err(JwtFault::Unknown), "no provider, no JWT");
    assert!(looks_like_jwt(&valid));
    assert!(!looks_like_jwt("a.b.c") && !looks_like_jwt("orders") && !looks_like_jwt(&format!("{header}.{payload}")));
}

#[test]
fn a_jwt_with_one_changed_character_does_not_count() {
    for algorithm in ["ES256", "EdDSA", "RS256"] {
        let (folder, issuer) = (tempfile::tempdir().unwrap(), TestIssuer::new(algorithm, "1"));
        let providers = provider(folder.path(), &[&issuer]);
        let valid = issuer.sign(&claims(NOW));
        let mutations = mutations(&valid);
        assert!(mutations.len() > 4_000, "{}", mutations.len());
        for mutation in mutations {
            let fault = providers.verify(&mutation, NOW).expect_err(&mutation);
            assert!(matches!(fault, JwtFault::Unknown | JwtFault::BadSignature), "{fault}: {mutation}");
        }
    }
}

#[test]
fn a_provider_names_its_callers_and_adds_attributes() {
    let (folder, issuer) = (tempfile::tempdir().unwrap(), TestIssuer::new("ES256", "1"));
    let file = folder.path().join("jwks.json");
    fs::write(&file, jwks(&[&issuer])).unwrap();
    let attributes = vec![("team".to_owned(), "/org/team".to_owned()), ("space".to_owned(), "/k8s.io~1ns/0".to_owned())];
    let with_claim = JwtProviderConfig { user_claim: "email".to_owned(), attributes, ..config(&file) };
    let providers = JwtProviders::load(vec![with_claim]).unwrap();
    let more = json!({ "email": "ci@example.com", "org": { "team": "red" }, "k8s.io/ns": ["a"] });
    let verified = providers.verify(&issuer.sign(&changed(claims(NOW), &more)), NOW).unwrap();
    assert_eq!(verified.subject, "ci@example.com");
    let pairs: Vec<(&str, &str)> = verified.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(pairs, [("team", "red"), ("space", "a")]);
    for wrong in [json!(7), json!({}), json!("x".repeat(513))] {
        let more = json!({ "email": "ci@example.com", "org": { "team": wrong } });
        let verified = providers.verify(&issuer.sign(&changed(claims(NOW), &more)), NOW).unwrap();
        assert_eq!(verified.attributes, [], "{wrong}");
    }
    assert_eq!(providers.verify(&issuer.sign(&claims(NOW)), NOW), Err(JwtFault::Unknown), "it has no such claim");
    assert!(providers.have_attribute("team") && !providers.have_attribute("user"));
}

#[test]
fn new_keys_count_at_once_and_a_file_that_cannot_be_used_changes_nothing() {
    let setup = Setup::new();
    let keys = setup.providers.key_sets()[0].clone();
    let file = setup.folder.path().join("jwks.json");
    let (first, second) = (setup.issuer.sign(&claims(NOW)), TestIssuer::new("RS256", "2"));
    assert_eq!(keys.check(), FileCheck::Unchanged);
    for content in ["", "{", "{\"keys\":[]}", "{\"keys\":{}}", "[]", "<html>"] {
        fs::write(&file, content).unwrap();
        let FileCheck::Rejected(error) = keys.check() else { panic!("{content}") };
        assert!(error.contains("jwks.json"), "{error}");
        assert_eq!(keys.check(), FileCheck::StillRejected { error: error.clone(), checks: 2 });
        assert_eq!(keys.rejection(), Some(error));
        assert!(setup.verify(&first).is_ok(), "{content}");
    }
    fs::remove_file(&file).unwrap();
    assert!(matches!(keys.check(), FileCheck::Rejected(error) if error.contains("cannot be read")));
    fs::write(&file, jwks(&[&setup.issuer, &second])).unwrap();
    assert_eq!((keys.check(), keys.rejection()), (FileCheck::Replaced, None));
    let new = second.sign(&claims(NOW));
    assert!(setup.verify(&first).is_ok() && setup.verify(&new).is_ok());
    fs::write(&file, jwks(&[&second])).unwrap();
    assert_eq!(keys.check(), FileCheck::Replaced);
    assert_eq!((setup.verify(&first), setup.verify(&new).is_ok()), (Err(JwtFault::Unknown), true));
}

#[test]
fn a_file_of_keys_says_what_is_wrong_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jwks.json");
    let load = |keys: Value| {
        fs::write(&file, json!({ "keys": keys }).to_string()).unwrap();
        JwtProviders::load(vec![config(&file)]).map(|providers| providers.key_sets()[0].current().key_count())
    };
    let (rsa, ec, ed) = (TestIssuer::new("RS256", "r"), TestIssuer::new("ES256", "e"), TestIssuer::new("EdDSA", "d"));
    let with = |issuer: &TestIssuer, changes: &Value| changed(issuer.jwk(), changes);
    let others = json!([
        ec.jwk(), with(&rsa, &json!({ "use": "enc" })), with(&rsa, &json!({ "key_ops": ["encrypt"] })),
        with(&rsa, &json!({ "alg": "RS512" })), { "kty": "oct", "k": "c2VjcmV0" }, { "kty": "EC", "crv": "P-521" },
        { "kty": "new" },
    ]);
    assert_eq!(load(others).unwrap(), 1, "keys for something else are left out");
    assert_eq!(load(json!([with(&ec, &json!({ "kid": null, "use": "sig", "key_ops": ["verify"] }))])).unwrap(), 1);
    let short = |length: usize| URL_SAFE_NO_PAD.encode(vec![0xff; length]);
    for (keys, says) in [
        (json!([]), "has no key for signatures"),
        (json!([{ "kty": "oct", "k": "c2VjcmV0" }]), "has no key for signatures"),
        (json!([7]), "key 1 in "),
        (json!([ec.jwk(), { "kid": "x" }]), "key 2 in "),
        (json!([with(&ec, &json!({ "d": "c2VjcmV0" }))]), "is a private key"),
        (json!([with(&rsa, &json!({ "n": short(128) }))]), "is RSA with fewer than 2048"),
        (json!([with(&rsa, &json!({ "n": null }))]), "lacks a member"),
        (json!([with(&ec, &json!({ "x": short(31) }))]), "has coordinates of another length"),
        (json!([with(&ec, &json!({ "y": "a b" }))]), "is not base64url"),
        (json!([with(&ed, &json!({ "x": short(33) }))]), "has another length than an Ed25519 key"),
        (json!([ec.jwk(), ec.jwk()]), "key 2 in "),
        (json!([with(&ec, &json!({ "kid": null })), rsa.jwk()]), "has no kid"),
        (json!(vec![ec.jwk(); 65]), "has more than 64 keys"),
    ] {
        let error = load(keys).unwrap_err().to_string();
        assert!(error.contains(says) && error.contains("jwks.json"), "{says}: {error}");
    }
}

#[test]
fn replaced_providers_count_at_once_in_every_clone() {
    let (first, second) = (Setup::new(), Setup::new());
    let clone = first.providers.clone();
    let (old, new) = (first.issuer.sign(&claims(NOW)), second.issuer.sign(&claims(NOW)));
    assert!(clone.verify(&old, NOW).is_ok() && clone.verify(&new, NOW).is_err());
    first.providers.replace(&second.providers);
    assert!(clone.verify(&old, NOW).is_err() && clone.verify(&new, NOW).is_ok());
    first.providers.replace(&JwtProviders::default());
    assert!(clone.verify(&new, NOW).is_err());
}
