//! Tests of `params`.

use super::*;
use axum::response::IntoResponse;

const KNOWN: KnownParams = KnownParams {
    now: &["wait", "limit", "token", "priority", "parents", "owner", "ids", "mode", "meta"],
    later: &["reentrant"],
};
const SECONDS: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(600);

fn parse<'a>(query: &'a str, body: &str) -> Result<Params<'a>, Problem> {
    Params::parse(Some(query), body.as_bytes(), &KNOWN)
}

fn detail(problem: Problem) -> String {
    let response = problem.into_response();
    assert_eq!(response.status(), http::StatusCode::BAD_REQUEST);
    let mut body = response.into_body();
    let frame = futures_util::FutureExt::now_or_never(http_body_util::BodyExt::frame(&mut body)).unwrap().unwrap().unwrap();
    let json: serde_json::Value = serde_json::from_slice(frame.data_ref().unwrap()).unwrap();
    json["detail"].as_str().unwrap().to_owned()
}

#[test]
fn a_parameter_may_stand_in_the_query_or_in_the_body() {
    for (query, body, wait) in [
        ("wait=30s", "", Some(30_000)),
        ("wait=250ms", "", Some(250)),
        ("wait=1.5", "", Some(1_500)),
        ("", r#"{"wait":"30s"}"#, Some(30_000)),
        ("", r#"{"wait":30}"#, Some(30_000)),
        ("", r#"{"wait":0.25}"#, Some(250)),
        ("", r#"{"wait":null}"#, None),
        ("", "{}", None),
        ("limit=1&&", "", None),
    ] {
        let given = parse(query, body).unwrap().duration("wait", SECONDS).unwrap();
        assert_eq!(given, wait.map(Duration::from_millis), "{query} {body}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    for (query, body, says) in [
        ("wiat=3", "", "there is no parameter \"wiat\" here; did you mean \"wait\"?"),
        ("colour=3", "", "there is no parameter \"colour\" here; the parameters are: wait, limit,"),
        ("", r#"{"Wait":3}"#, "did you mean \"wait\"?"),
        ("reentrant", "", "the parameter \"reentrant\": this version does not support it yet"),
        ("wait=1&wait=2", "", "\"wait\" is given twice"),
        ("wait=1", r#"{"wait":1}"#, "\"wait\" is given twice"),
        ("", r#"{"wait":1,"wait":1}"#, "\"wait\" is given twice"),
        ("wait=%zz", "", "must follow %"),
        ("wait=%f", "", "must follow %"),
        ("owner=%ff", "", "not UTF-8"),
        ("", "[]", "one JSON object"),
        ("", "3", "one JSON object"),
        ("", "{}{}", "one JSON object"),
        ("", "{\"wait\":", "one JSON object"),
    ] {
        let detail = detail(parse(query, body).map(|_| ()).unwrap_err());
        assert!(detail.contains(says), "{query} {body}: {detail}");
    }
}

#[test]
fn a_long_name_is_not_repeated_in_full() {
    let detail = detail(parse(&"é".repeat(40), "").map(|_| ()).unwrap_err());
    assert_eq!(detail, format!("there is no parameter \"{}…\" here", "é".repeat(32)));
}

#[test]
fn a_wrong_value_names_the_parameter_and_what_is_expected() {
    let wrong = |query: &str, body: &str, read: &dyn Fn(&mut Params<'_>) -> Option<Problem>| {
        let mut params = parse(query, body).unwrap();
        detail(read(&mut params).unwrap_or_else(|| panic!("{query} {body} was taken")))
    };
    for (query, body) in [
        ("wait", ""),
        ("wait=", ""),
        ("wait=soon", ""),
        ("wait=-1s", ""),
        ("wait=601s", ""),
        ("", r#"{"wait":-1}"#),
        ("", r#"{"wait":true}"#),
        ("", r#"{"wait":["1s"]}"#),
        ("", r#"{"wait":1e300}"#),
    ] {
        let detail = wrong(query, body, &|params| params.duration("wait", SECONDS).err());
        assert!(detail.starts_with("the parameter \"wait\": expected a duration"), "{detail}");
    }
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
    ] {
        let detail = wrong(query, body, &|params| params.count("limit", 1..=10).err());
        assert_eq!(detail, "the parameter \"limit\": expected a whole number from 1 to 10");
    }
    for (query, body) in [("parents=yes", ""), ("parents=", ""), ("", r#"{"parents":"true"}"#), ("", r#"{"parents":1}"#)] {
        let detail = wrong(query, body, &|params| params.flag("parents").err());
        assert_eq!(detail, "the parameter \"parents\": expected true or false");
    }
    for (query, body) in [("meta=x", ""), ("meta", ""), ("", r#"{"meta":{"a":1}}"#), ("", r#"{"meta":[]}"#)] {
        let detail = wrong(query, body, &|params| params.meta("meta").err());
        assert!(detail.contains("whose values are all texts"), "{detail}");
    }
}

#[test]
fn integers_end_below_the_first_that_json_readers_may_not_hold() {
    let token = |text: String| parse(&text, "").unwrap().integer("token", 0..=u64::MAX);
    assert_eq!(token(format!("token={}", INTEGER_END - 1)).unwrap(), Some(INTEGER_END - 1));
    assert!(token(format!("token={INTEGER_END}")).is_err());
}

#[test]
fn flags_are_bare_or_say_so() {
    for (query, body, on) in [
        ("parents", "", true),
        ("parents=true", "", true),
        ("parents=false", "", false),
        ("", r#"{"parents":true}"#, true),
        ("", "", false),
    ] {
        assert_eq!(parse(query, body).unwrap().flag("parents").unwrap(), on, "{query} {body}");
    }
}

#[test]
fn texts_are_decoded_as_forms_are() {
    let mut params = parse("owner=a+b%2Bc%20%C3%A9&priority=-7", "").unwrap();
    assert_eq!(params.text("owner", 16).unwrap().as_deref(), Some("a b+c é"));
    assert_eq!(params.signed("priority").unwrap(), Some(-7));
}

#[test]
fn a_text_for_people_has_no_control_invisible_or_direction_characters() {
    for bad in ["%1b]0;pwned%07", "a%0d%0aFAKE", "%c2%9b", "a%e2%80%ae", "%e2%80%8b", "%ef%bb%bf", "%7f"] {
        let query = format!("owner={bad}&meta={{\"a\":\"{bad}\"}}");
        let refused = detail(parse(&query, "").unwrap().words("owner", 256).unwrap_err());
        assert!(
            refused.starts_with("the parameter \"owner\": expected a text without control characters") && refused.contains("U+")
        );
        let named = parse("", r#"{"meta":{"a\u001b":""}}"#).unwrap().meta("meta").map(|_| ());
        assert!(detail(named.unwrap_err()).contains("U+001B"), "a key too");
        assert!(parse(&query, "").unwrap().text("owner", 256).is_ok(), "what is not for people stays as it is");
    }
    let said = parse("", r#"{"meta":{"a":"x\u202ey"}}"#).unwrap().meta("meta").map(|_| ());
    assert!(detail(said.unwrap_err()).contains("U+202E"));
    assert_eq!(parse("owner=Zo%c3%ab+%22ci%22", "").unwrap().words("owner", 256).unwrap().as_deref(), Some("Zoë \"ci\""));
}

#[test]
fn the_limits_hold_at_and_over() {
    let owner = |length: usize| parse(&format!("owner={}", "x".repeat(length)), "").unwrap().text("owner", 256).is_ok();
    assert!(owner(256) && !owner(257));
    let pairs = |count: usize, size: usize| {
        let pairs: Vec<String> = (0..count).map(|index| format!("\"{index:02}\":\"{}\"", "x".repeat(size))).collect();
        parse("", &format!("{{\"meta\":{{{}}}}}", pairs.join(","))).unwrap().meta("meta").is_ok()
    };
    assert!(pairs(16, 62) && !pairs(17, 1) && !pairs(16, 63));
    let ids = |count: usize| {
        let ids = vec!["\"1\""; count].join(",");
        parse("", &format!("{{\"ids\":[{ids}]}}")).unwrap().list::<u64>("ids", 3).is_ok()
    };
    assert!(ids(0) && ids(3) && !ids(4));
    assert!(parse("", "").unwrap().list::<u64>("ids", 3).is_err());
}
