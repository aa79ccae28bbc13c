//! Random patterns and names against a naive matcher, and the properties of containment.
//!
//! Every run is a seed; a failure prints it. `FAIRHOLD_SEED=7 cargo test -p fairhold-access --test property` runs only that
//! one, and `FAIRHOLD_SEED=1000..2000` these.

use fairhold_access::{Attributes, Need, Pattern, Principal, Rights, RoleName, Rule, Verb};
use fairhold_types::LockName;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::ops::Range;

/// Levels that begin with each other, and values that look like wildcards.
const LEVELS: [&str; 7] = ["a", "ab", "abc", "b", "*", "**", "ann"];

fn seeds(default: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var("FAIRHOLD_SEED") else { return default };
    let number = |text: &str| text.parse::<u64>().expect("FAIRHOLD_SEED is a number or a range");
    match text.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => number(&text)..number(&text) + 1,
    }
}

fn name(rng: &mut SmallRng) -> String {
    let levels = rng.random_range(1..5);
    (0..levels).map(|_| LEVELS[rng.random_range(0..LEVELS.len())]).collect::<Vec<_>>().join("/")
}

fn pattern(rng: &mut SmallRng) -> String {
    let parts = ["a", "ab", "abc", "b", "*", "*", "{user}", "{group}"];
    let levels = rng.random_range(0..4);
    let mut all: Vec<&str> = (0..levels).map(|_| parts[rng.random_range(0..parts.len())]).collect();
    if all.is_empty() || rng.random_range(0..2) == 0 {
        all.push("**");
    }
    all.join("/")
}

/// A name that the pattern covers, by one draw for each wildcard.
fn name_below(pattern: &str, user: &str, rng: &mut SmallRng) -> String {
    let mut levels: Vec<String> = Vec::new();
    for part in pattern.split('/') {
        match part {
            "*" => levels.push(LEVELS[rng.random_range(0..LEVELS.len())].to_owned()),
            "**" => (0..rng.random_range(0..3)).for_each(|_| levels.push(name(rng).replace('/', "-"))),
            "{user}" => levels.push(user.to_owned()),
            literal => levels.push(literal.to_owned()),
        }
    }
    levels.join("/")
}

/// The same rule without any structure: by text, level after level, from the first.
fn naive_match(pattern: &[&str], name: &[&str], user: &str) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (Some((&"**", [])), _) | (None, None) => true,
        (None, Some(_)) | (Some(_), None) => false,
        (Some((part, rest)), Some((level, below))) => {
            let fits = match *part {
                "*" => true,
                "{user}" => *level == user,
                literal => !literal.starts_with('{') && literal == *level,
            };
            fits && naive_match(rest, below, user)
        }
    }
}

fn rights(rules: &[Rule], principal: &Principal) -> Rights {
    let role = RoleName::parse("role").expect("it is a name");
    let attributes = Attributes::of(principal, []);
    Rights::compile(
        principal,
        &attributes,
        |subject| if subject.covers(principal) { vec![role.clone()] } else { vec![] },
        |_| Some(rules),
    )
}

/// The decision over several rules is that of a naive matcher, and the rule that it names covers the name.
#[test]
fn the_decision_is_that_of_a_naive_matcher() {
    for seed in seeds(0..20_000) {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let user = ["ann", "a", "b", "ab"][rng.random_range(0..4)];
        let principal = Principal::parse(&format!("user:{user}")).unwrap();
        let verbs = ["acquire", "share", "inspect"];
        let texts: Vec<(&str, String)> =
            (0..rng.random_range(0..6)).map(|_| (verbs[rng.random_range(0..3)], pattern(rng))).collect();
        let rules: Vec<Rule> =
            texts.iter().map(|(verb, pattern)| Rule::parse(&format!("{verb} locks:{pattern}")).unwrap()).collect();
        let rights = rights(&rules, &principal);
        for _ in 0..8 {
            let text = name(rng);
            let lock = LockName::parse(&text).unwrap();
            for verb in [Verb::Acquire, Verb::Share, Verb::Inspect] {
                let covers = |(named, pattern): &&(&str, String)| {
                    let gives = *named == verb.as_str() || (verb == Verb::Share && *named == "acquire");
                    let (pattern, name): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), text.split('/').collect());
                    gives && naive_match(&pattern, &name, user)
                };
                let expected = texts.iter().any(|rule| covers(&rule));
                let found = rights.decide(&Need::on_lock(verb, &lock));
                assert_eq!(found.is_ok(), expected, "seed {seed}: {verb} {text} as {user} by {texts:?}: {found:?}");
                if let Ok(permission) = found {
                    let index = rules.iter().position(|rule| rule == permission.rule).expect("it is one of the rules");
                    assert!(covers(&&texts[index]), "seed {seed}: {text} is not covered by {}", permission.rule);
                }
            }
        }
    }
}

/// If a pattern contains another one, it covers each name of the other one.
#[test]
fn containment_implies_that_each_name_below_is_allowed() {
    let (mut contained, mut apart) = (0, 0);
    for seed in seeds(0..20_000) {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let principal = Principal::parse("user:ann").unwrap();
        let (outer, inner) = (pattern(rng), pattern(rng).replace("{group}", "b"));
        let rules = [Rule::parse(&format!("inspect locks:{outer}")).unwrap()];
        let rights = rights(&rules, &principal);
        let scope = Pattern::parse(&inner.replace("{user}", "ann")).unwrap();
        let contains = rights.decide(&Need::on_every(Verb::Inspect, scope)).is_ok();
        let names: Vec<String> = (0..8).map(|_| name_below(&inner, "ann", rng)).filter(|name| !name.is_empty()).collect();
        for name in &names {
            let lock = LockName::parse(name).unwrap();
            let allowed = rights.decide(&Need::on_lock(Verb::Inspect, &lock)).is_ok();
            assert!(allowed || !contains, "seed {seed}: {outer} contains {inner}, but does not cover {name}");
        }
        if contains { contained += 1 } else { apart += 1 }
    }
    assert!(seeds(0..0) != (0..0) || (contained > 1_000 && apart > 1_000), "{contained} contained, {apart} apart");
}

/// Containment is an order: each pattern contains itself, and it is transitive.
#[test]
fn containment_is_an_order() {
    for seed in seeds(0..20_000) {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let [one, two, three] = [0; 3].map(|_| Pattern::parse(&pattern(rng)).unwrap());
        assert!(one.contains(&one), "seed {seed}: {one}");
        let chain = one.contains(&two) && two.contains(&three);
        assert!(!chain || one.contains(&three), "seed {seed}: {one}, {two}, {three}");
        let same = one.contains(&two) && two.contains(&one);
        assert!(!same || one == two, "seed {seed}: {one} and {two} differ but contain each other");
    }
}

/// Each pattern and each rule is printed so that it parses to the same value again, and no text makes the parser panic.
#[test]
fn what_is_printed_parses_again() {
    let pieces = [
        "acquire",
        "inspect",
        "read",
        ",",
        " ",
        "locks:",
        "nodes:",
        "cluster",
        "/",
        "*",
        "**",
        "{user}",
        "{",
        "}",
        "a",
        "é",
        ".",
        "priority<=",
        "7",
        "\u{7}",
    ];
    let heads = ["", "acquire locks:", "inspect,acquire,priority<=3 locks:", "read nodes:", "status"];
    let mut parsed = 0;
    for seed in seeds(0..50_000) {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let rest: String = (0..rng.random_range(0..8)).map(|_| pieces[rng.random_range(0..pieces.len())]).collect();
        let text = format!("{}{rest}", heads[rng.random_range(0..heads.len())]);
        match Rule::parse(&text) {
            Ok(rule) => {
                parsed += 1;
                assert_eq!(Rule::parse(&rule.to_string()).as_ref(), Ok(&rule), "seed {seed}: {text}");
            }
            Err(bad) => {
                let length = text.chars().count();
                assert!((1..=length + 1).contains(&bad.position), "seed {seed}: {text}: {bad}");
            }
        }
        if let Ok(pattern) = Pattern::parse(&text) {
            assert_eq!(pattern.to_string(), text, "seed {seed}");
        }
    }
    assert!(seeds(0..0) != (0..0) || parsed > 1_000, "only {parsed} rules");
}
