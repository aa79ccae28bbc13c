//! Secrets that are planted, what is said of them anywhere, and the search.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// The bytes by which the search looks a text up. No form of a secret is shorter.
const PREFIX: usize = 8;
/// How many bytes around a leak are shown.
const SHOWN: usize = 60;

/// Where a secret may be, besides the file that holds it and the answer that gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Nowhere.
    Nowhere,
    /// It is the id of something: in the answers to requests that show it, and in the data of the nodes.
    Capability,
}

/// A secret in one of its places.
#[derive(Debug, Clone)]
pub(crate) struct Canary {
    /// Its place.
    pub(crate) name: &'static str,
    rule: Rule,
    /// Bytes that give it away.
    forms: Vec<Vec<u8>>,
}

impl Canary {
    pub(crate) fn new(name: &'static str, rule: Rule, text: &str) -> Canary {
        assert!(text.len() >= PREFIX, "{name} is too short");
        Canary { name, rule, forms: vec![text.as_bytes().to_vec()] }
    }

    /// A token of a user: its text, and the bytes that it encodes.
    pub(crate) fn token(name: &'static str, text: &str) -> Canary {
        Canary::new(name, Rule::Nowhere, text).or(decoded(&text["fht_".len()..][..43])[..32].to_vec())
    }

    /// The private key in a PEM file, as text and as bytes.
    pub(crate) fn key(name: &'static str, file: &Path) -> Canary {
        let pem = fs::read_to_string(file).expect("a key");
        let lines: Vec<&str> = pem.lines().filter(|line| !line.starts_with("-----")).collect();
        // The first line begins like that of other keys, and the last one is a part of the public key.
        assert_eq!(lines.len(), 3, "{name}: another kind of key");
        Canary::new(name, Rule::Nowhere, lines[1]).or(&decoded(&lines.concat())[36..68])
    }

    /// The same with further bytes that give it away.
    pub(crate) fn or(mut self, bytes: impl Into<Vec<u8>>) -> Canary {
        self.forms.push(bytes.into());
        self
    }

    /// Its text.
    pub(crate) fn text(&self) -> &[u8] {
        &self.forms[0]
    }

    /// Whether the data of a node may have it.
    pub(crate) fn may_be_data(&self) -> bool {
        self.rule == Rule::Capability
    }

    /// Whether these bytes give it away.
    pub(crate) fn is_in(&self, bytes: &[u8]) -> bool {
        self.forms.iter().any(|form| contains(bytes, form))
    }
}

/// What was said somewhere.
#[derive(Debug, Clone)]
pub(crate) struct Evidence {
    /// Where.
    pub(crate) place: String,
    pub(crate) bytes: Vec<u8>,
    /// The request that was answered, if it is an answer.
    pub(crate) request: Vec<u8>,
    /// The secret that the answer has to give.
    pub(crate) gives: Option<&'static str>,
    /// Whether it is in the data folder of a node.
    pub(crate) is_data: bool,
}

impl Evidence {
    pub(crate) fn new(place: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Evidence {
        Evidence { place: place.into(), bytes: bytes.into(), request: Vec::new(), gives: None, is_data: false }
    }

    pub(crate) fn answer(place: impl Into<String>, bytes: impl Into<Vec<u8>>, request: impl Into<Vec<u8>>) -> Evidence {
        Evidence { request: request.into(), ..Evidence::new(place, bytes) }
    }

    /// The same for the answer that gives a secret.
    pub(crate) fn giving(self, name: &'static str) -> Evidence {
        Evidence { gives: Some(name), ..self }
    }

    /// All files below the data folder of a node.
    pub(crate) fn data(folder: &Path) -> Vec<Evidence> {
        files_below(folder)
            .into_iter()
            .filter_map(|file| {
                // A file may be removed while they are listed.
                let bytes = fs::read(&file).ok()?;
                Some(Evidence { is_data: true, ..Evidence::new(file.display().to_string(), bytes) })
            })
            .collect()
    }

    fn may_have(&self, canary: &Canary) -> bool {
        let is_capability = canary.rule == Rule::Capability;
        self.gives == Some(canary.name) || (is_capability && (self.is_data || canary.is_in(&self.request)))
    }
}

/// The bytes of a text in base64 or base64url.
fn decoded(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |byte: u8| match byte {
        b'-' => 62,
        b'_' => 63,
        other => DIGITS.iter().position(|digit| *digit == other).expect("a digit of base64"),
    };
    let bits: Vec<bool> =
        text.trim_end_matches('=').bytes().flat_map(|byte| (0..6).rev().map(move |bit| (digit(byte) >> bit) & 1 == 1)).collect();
    bits.chunks_exact(8).map(|bits| bits.iter().fold(0, |byte, bit| (byte << 1) | u8::from(*bit))).collect()
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files.extend(files_below(&entry.path())),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            Ok(_) | Err(_) => {}
        }
    }
    files
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Every place that has a secret which it may not have.
pub(crate) fn leaks(canaries: &[Canary], evidence: &[Evidence]) -> Vec<String> {
    let mut by_prefix: BTreeMap<[u8; PREFIX], Vec<(&Canary, &[u8])>> = BTreeMap::new();
    for canary in canaries {
        for form in &canary.forms {
            by_prefix.entry(prefix(form).expect("a form is long enough")).or_default().push((canary, form));
        }
    }
    let mut leaks = Vec::new();
    for said in evidence {
        let mut found: Vec<&str> = Vec::new();
        for at in 0..said.bytes.len().saturating_sub(PREFIX - 1) {
            let Some(candidates) = prefix(&said.bytes[at..]).and_then(|prefix| by_prefix.get(&prefix)) else { continue };
            for (canary, form) in candidates {
                if said.bytes[at..].starts_with(form) && !found.contains(&canary.name) && !said.may_have(canary) {
                    found.push(canary.name);
                    let around = &said.bytes[at.saturating_sub(SHOWN)..(at + form.len() + SHOWN).min(said.bytes.len())];
                    leaks.push(format!("{} is in {}: …{}…", canary.name, said.place, String::from_utf8_lossy(around)));
                }
            }
        }
    }
    leaks
}

fn prefix(bytes: &[u8]) -> Option<[u8; PREFIX]> {
    bytes.get(..PREFIX)?.try_into().ok()
}

#[test]
fn a_secret_is_found_unless_it_is_where_it_may_be() {
    let token = Canary::new("a token", Rule::Nowhere, "fht_secret").or(*b"\x00\x01\x02\x03\x04\x05\x06\x07");
    let id = Canary::new("an id", Rule::Capability, "01ARZ3NDEKTSV4RRFFQ69G5FAV");
    let canaries = [token, id];
    let found = |evidence: Evidence| leaks(&canaries, &[evidence]).len();
    let both = "x fht_secret and fht_secret and 01ARZ3NDEKTSV4RRFFQ69G5FAV";
    assert_eq!(found(Evidence::new("a log", both)), 2);
    assert_eq!(found(Evidence::new("a log", "fht_secre 01ARZ3NDEKTSV4RRFFQ69G5FAW")), 0);
    assert_eq!(found(Evidence::new("a file", *b"..\x00\x01\x02\x03\x04\x05\x06\x07")), 1);
    assert_eq!(decoded("AAECAw=="), [0, 1, 2, 3]);
    assert_eq!(decoded("-_-_"), [251, 255, 191]);
    let answer = || Evidence::answer("an answer", both, both);
    assert_eq!(found(answer()), 1, "a request that shows a token does not get it back");
    assert_eq!(found(answer().giving("a token")), 0);
    assert_eq!(found(Evidence { is_data: true, ..Evidence::new("a table", both) }), 1);
}
