//! Tests of `params`.

use super::*;
use fairhold_types::{
    Mode, SessionId,
    call::{BoundedCount, BoundedList, INTEGER_MAX, MetaPairs, Number, OwnerName, Priority, Wait},
    limits::META_BYTES_MAX,
    problem,
};
use serde::Deserialize;

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    wait: Option<Wait>,
    limit: Option<BoundedCount<1, 10>>,
    token: Option<Number>,
    priority: Option<Priority>,
    #[serde(default)]
    parents: bool,
    owner: Option<OwnerName>,
    ids: Option<BoundedList<SessionId, 3>>,
    mode: Option<Mode>,
    meta: Option<MetaPairs>,
}

fn parse(query: &str, body: &str) -> Result<Call, Problem> {
    super::parse(Some(query), body.as_bytes()).map(|given| given.params)
}

fn detail(refused: Result<Call, Problem>) -> String {
    let problem = problem::Problem::from(refused.unwrap_err());
    assert_eq!(problem.status, 400);
    problem.detail.into_owned()
}

#[test]
fn a_parameter_is_in_the_query_or_in_the_body() {
    for (query, body, wait) in [
        ("wait=30s", "", Some(30_000)),
        ("wait=250ms", "", Some(250)),
        ("wait=1.5", "", Some(1_500)),
        ("", r#"{"wait":"30s"}"#, Some(30_000)),
        ("", r#"{"wa\u0069t":"\u0033\u0030s"}"#, Some(30_000)),
        ("", r#"{"wait":30}"#, Some(30_000)),
        ("", r#"{"wait":0.25}"#, Some(250)),
        ("", r#"{"wait":null}"#, None),
        ("", "{}", None),
        ("limit=1&&", "", None),
        ("wait=30s", r#"{"limit":1}"#, Some(30_000)),
    ] {
        let given = parse(query, body).unwrap();
        assert_eq!(given.wait.map(Wait::millis), wait, "{query} {body}");
    }
}

#[test]
fn a_null_means_that_the_parameter_is_not_given() {
    let names = ["wait", "limit", "token", "priority", "parents", "owner", "ids", "mode", "meta"];
    let body = format!("{{{}}}", names.map(|name| format!("\"{name}\":null")).join(","));
    let given = parse("", &body).unwrap();
    assert_eq!(given, Call::default());
}

#[test]
fn a_mistake_is_named() {
    for (query, body, says) in [
        ("wiat=3", "", "there is no parameter \"wiat\" here; did you mean \"wait\"?"),
        ("colour=3", "", "there is no parameter \"colour\" here; the parameters are: wait, limit,"),
        ("", r#"{"Wait":3}"#, "did you mean \"wait\"?"),
        ("", r#"{"wiat":null}"#, "did you mean \"wait\"?"),
        ("wait=1&wait=2", "", "\"wait\" is given twice"),
        ("wait=1", r#"{"wait":1}"#, "\"wait\" is given twice"),
        ("", r#"{"wait":1,"wait":1}"#, "\"wait\" is given twice"),
        ("", r#"{"wait":null,"wait":1}"#, "\"wait\" is given twice"),
        ("wait=%zz", "", "must follow %"),
        ("wait=%f", "", "must follow %"),
        ("owner=%ff", "", "not UTF-8"),
        ("", "[]", "one JSON object"),
        ("", "3", "one JSON object"),
        ("", "{}{}", "one JSON object"),
        ("", "{\"wait\":", "one JSON object"),
    ] {
        let detail = detail(parse(query, body));
        assert!(detail.contains(says), "{query} {body}: {detail}");
    }
    let no_parameters = super::parse::<fairhold_types::call::Empty>(Some("wait=1"), &[]).map(drop).unwrap_err();
    let detail = problem::Problem::from(no_parameters).detail;
    assert_eq!(detail, "there is no parameter \"wait\" here; this call has no parameters");
}

#[test]
fn a_missing_parameter_is_named_with_what_is_expected() {
    for (query, body) in [("", ""), ("", r#"{"grant":"01ARZ3NDEKTSV4RRFFQ69G5FAV"}"#)] {
        let missing = super::parse::<fairhold_types::call::Proclaim>(Some(query), body.as_bytes()).map(drop).unwrap_err();
        let detail = problem::Problem::from(missing).detail;
        assert!(detail.starts_with("the parameter \"") && detail.contains("\": expected the "), "{detail}");
    }
}

#[test]
fn a_long_name_is_not_repeated() {
    for (query, body) in [("fht_".repeat(11), String::new()), (String::new(), format!("{{\"{}\":1}}", "fht_".repeat(11)))] {
        assert_eq!(detail(parse(&query, &body)), "there is no parameter with a name of 44 bytes here");
    }
}

#[test]
fn no_value_of_a_body_is_repeated() {
    for body in [
        "\"fht_secret\"",
        "[\"fht_secret\"]",
        r#"{"wait":"fht_secret"}"#,
        r#"{"ids":["fht_secret"]}"#,
        r#"{"meta":"fht_secret"}"#,
    ] {
        let detail = detail(parse("", body));
        assert!(!detail.contains("secret"), "{body}: {detail}");
    }
}

#[test]
fn a_wrong_value_names_the_parameter_and_what_is_expected() {
    for (query, body) in [
        ("wait", ""),
        ("wait=", ""),
        ("wait=soon", ""),
        ("wait=-1s", ""),
        ("wait=601s", ""),
        ("", r#"{"wait":-1}"#),
        ("", r#"{"wait":true}"#),
        ("", r#"{"wait":["1s"]}"#),
        ("", r#"{"wait":{"s":1}}"#),
        ("", r#"{"wait":1e300}"#),
    ] {
        let detail = detail(parse(query, body));
        assert!(detail.starts_with("the parameter \"wait\": expected a duration"), "{query} {body}: {detail}");
    }
    assert_eq!(detail(parse("wait=601s", "")), "the parameter \"wait\": expected a duration from 0s to 600s");
    for (query, body) in [
        ("limit", ""),
        ("limit=", ""),
        ("limit=0", ""),
        ("limit=+1", ""),
        ("limit=1.0", ""),
        ("limit=11", ""),
        ("limit=99999999999999999999", ""),
        ("", r#"{"limit":"1"}"#),
        ("", r#"{"limit":1.5}"#),
        ("", r#"{"limit":-1}"#),
        ("", r#"{"limit":[1]}"#),
    ] {
        assert_eq!(detail(parse(query, body)), "the parameter \"limit\": expected a whole number from 1 to 10");
    }
    for (query, body) in [("parents=yes", ""), ("parents=", ""), ("", r#"{"parents":"true"}"#), ("", r#"{"parents":1}"#)] {
        assert_eq!(detail(parse(query, body)), "the parameter \"parents\": expected true or false");
    }
    for (query, body) in [("mode", ""), ("mode=", ""), ("mode=Shared", ""), ("", r#"{"mode":1}"#)] {
        assert_eq!(detail(parse(query, body)), "the parameter \"mode\": expected exclusive or shared");
    }
    for (query, body) in [("meta=x", ""), ("meta", ""), ("", r#"{"meta":{"a":1}}"#), ("", r#"{"meta":[]}"#)] {
        let detail = detail(parse(query, body));
        assert_eq!(detail, "the parameter \"meta\": expected a JSON object whose values are all strings");
    }
    for (query, body) in [("owner", ""), ("", r#"{"owner":7}"#)] {
        assert_eq!(detail(parse(query, body)), "the parameter \"owner\": expected a string");
    }
    for (query, body) in [("ids=1", ""), ("", r#"{"ids":"1"}"#)] {
        assert_eq!(detail(parse(query, body)), "the parameter \"ids\": expected a list of strings, in a JSON body");
    }
    let id = detail(parse("", r#"{"ids":["1"]}"#));
    assert_eq!(id, "the parameter \"ids\": expected 32 hexadecimal digits in lower case");
}

#[test]
fn integers_stay_below_what_every_json_reader_can_represent() {
    let token = |number: u64| parse(&format!("token={number}"), "").map(|given| given.token.map(Number::get));
    assert_eq!(token(INTEGER_MAX).unwrap(), Some(INTEGER_MAX));
    let refused = problem::Problem::from(token(INTEGER_MAX + 1).unwrap_err());
    assert_eq!(refused.detail, "the parameter \"token\": expected a whole number from 0 to 9007199254740991");
}

#[test]
fn a_flag_is_bare_or_true_or_false() {
    for (query, body, on) in [
        ("parents", "", true),
        ("parents=true", "", true),
        ("parents=false", "", false),
        ("", r#"{"parents":true}"#, true),
        ("", r#"{"parents":null}"#, false),
        ("", "", false),
    ] {
        assert_eq!(parse(query, body).unwrap().parents, on, "{query} {body}");
    }
}

#[test]
fn text_in_a_query_is_decoded_like_a_form() {
    let given = parse("owner=a+b%2Bc%20%C3%A9&priority=-7&meta=%7B%22a%22:%22b%22%7D&mode=shared", "").unwrap();
    assert_eq!(given.owner.unwrap().as_str(), "a b+c é");
    assert_eq!(given.priority.unwrap().get(), -7);
    assert_eq!(given.meta.unwrap().into_inner()["a"], "b");
    assert_eq!(given.mode, Some(Mode::Shared));
}

#[test]
fn text_for_people_has_no_control_invisible_or_direction_characters() {
    for bad in ["%1b]0;pwned%07", "a%0d%0aFAKE", "%c2%9b", "a%e2%80%ae", "%e2%80%8b", "%ef%bb%bf", "%7f"] {
        let refused = detail(parse(&format!("owner={bad}"), ""));
        assert!(
            refused.starts_with("the parameter \"owner\": expected a string without control characters")
                && refused.contains("U+")
        );
    }
    assert!(detail(parse("", r#"{"meta":{"a\u001b":""}}"#)).contains("U+001B"), "a key too");
    assert!(detail(parse("", r#"{"meta":{"a":"x\u202ey"}}"#)).contains("U+202E"));
    assert_eq!(parse("owner=Zo%c3%ab+%22ci%22", "").unwrap().owner.unwrap().as_str(), "Zoë \"ci\"");
}

#[test]
fn the_limits_are_checked_at_and_over_the_bound() {
    let owner = |length: usize| parse(&format!("owner={}", "x".repeat(length)), "");
    assert!(owner(256).is_ok());
    assert_eq!(detail(owner(257)), "the parameter \"owner\": expected a string of at most 256 bytes, not 257");
    let pairs = |count: usize, size: usize| {
        let pairs: Vec<String> = (0..count).map(|index| format!("\"{index:02}\":\"{}\"", "x".repeat(size))).collect();
        parse("", &format!("{{\"meta\":{{{}}}}}", pairs.join(",")))
    };
    assert!(pairs(16, 62).is_ok() && pairs(17, 1).is_err());
    let most = format!("the parameter \"meta\": expected at most 16 pairs and {META_BYTES_MAX} bytes together");
    assert_eq!(detail(pairs(16, 63)), most);
    let ids = |count: usize| {
        let ids = vec!["\"0123456789abcdef0123456789abcdef\""; count].join(",");
        parse("", &format!("{{\"ids\":[{ids}]}}"))
    };
    assert!(ids(0).is_ok() && ids(3).is_ok());
    assert_eq!(detail(ids(4)), "the parameter \"ids\": expected a list of at most 3 strings, not 4");
}
