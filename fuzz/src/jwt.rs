//! JWTs, whose headers name an algorithm and a key before anything is proved.

use fairhold_trust::jwt::{JwtProviderConfig, JwtProviders, fault::JwtFault, parts::looks_like_jwt};
use fairhold_types::time::WallMillis;
use std::{fs, path::PathBuf, sync::OnceLock};

/// The provider's public key. The private one is gone: nobody can sign another token.
const KEYS: &str = "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"1\",\"alg\":\"ES256\",\
                    \"x\":\"J7HwFmIugQfGja_mkB1hlL6EDIdXKw2G0N2zIioI0OY\",\
                    \"y\":\"ljGyEg4_qYTPahui70Fpi8kt0djtHQUQCTv2kiFEpNE\"}]}";
/// The tokens that were signed with it: for now, for two audiences, of the past, of the future, for another audience, and
/// without a subject.
const SIGNED: [&str; 6] = [
    include_str!("../corpus/jwt/right"),
    include_str!("../corpus/jwt/two-audiences"),
    include_str!("../corpus/jwt/expired"),
    include_str!("../corpus/jwt/early"),
    include_str!("../corpus/jwt/other-audience"),
    include_str!("../corpus/jwt/without-subject"),
];
/// A time at which the first two are valid.
const NOW: WallMillis = WallMillis(1_200_000);

fn providers() -> &'static JwtProviders {
    static PROVIDERS: OnceLock<JwtProviders> = OnceLock::new();
    PROVIDERS.get_or_init(|| {
        let jwks = file();
        fs::write(&jwks, KEYS).expect("a file of keys");
        let config = JwtProviderConfig {
            name: "idp".to_owned(),
            issuer: "https://issuer.test".to_owned(),
            audience: "fairhold".to_owned(),
            jwks: jwks.clone(),
            user_claim: "sub".to_owned(),
            attributes: vec![("team".to_owned(), "/org/team".to_owned())],
        };
        let providers = JwtProviders::load(vec![config]).expect("a provider");
        fs::remove_file(jwks).expect("the file is there");
        providers
    })
}

fn file() -> PathBuf {
    std::env::temp_dir().join(format!("fairhold-fuzz-{}.json", std::process::id()))
}

/// Only what the provider has signed counts, and only about that a refusal says more than that it is unknown.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let verified = providers().verify(&text, NOW);
    let signed = text.rsplit_once('.').and_then(|(message, _)| {
        SIGNED.iter().position(|token| token.rsplit_once('.').is_some_and(|(signed, _)| signed == message))
    });
    match &verified {
        Ok(identity) => {
            assert!(matches!(signed, Some(0 | 1)), "{text:?} was accepted as {identity:?}");
            assert_eq!((identity.provider.as_str(), identity.subject.as_str()), ("idp", "ci"));
            assert_eq!(identity.attributes, [("team".to_owned(), "red".to_owned())]);
            assert_eq!(identity.expires_at, WallMillis(1_600_000));
        }
        Err(JwtFault::Expired) => assert_eq!(signed, Some(2), "{text:?}"),
        Err(JwtFault::NotYetValid) => assert_eq!(signed, Some(3), "{text:?}"),
        Err(JwtFault::WrongAudience) => assert_eq!(signed, Some(4), "{text:?}"),
        Err(JwtFault::Unknown | JwtFault::BadSignature) => {}
    }
    // A URL with it is refused.
    if !matches!(verified, Err(JwtFault::Unknown)) {
        assert!(looks_like_jwt(&text), "{text:?}: {verified:?}");
    }
    if let Some(token) = SIGNED.iter().position(|token| *token == text) {
        let expected = [
            Ok(()),
            Ok(()),
            Err(JwtFault::Expired),
            Err(JwtFault::NotYetValid),
            Err(JwtFault::WrongAudience),
            Err(JwtFault::Unknown),
        ];
        assert_eq!(verified.map(drop), expected[token], "{text:?}");
    }
}
