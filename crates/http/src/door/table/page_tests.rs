//! `docs/rights.md`: what each call needs, and which built-in roles have it. `FAIRHOLD_GOLDEN=write` rewrites it.

use super::{CALLS, RouteRule};
use fairhold_access::{Attributes, Principal, Rights, RoleName, UserName, Verb, role};
use std::{fmt::Write as _, fs};

const FILE: &str = "../../docs/rights.md";
const HEAD: &str = "\
# What each call needs

While [access rights](guides/access.md) are enforced, each call of the HTTP API needs what this
table says. A call without a valid credential gets `401`. If the right is missing, the answer is
`403 denied`, whether the thing exists or not. The table is made from the source code, and a call
without a row does not pass its tests.

- *Anyone*: no credential is needed.
- *Any credential*: the call tells about its caller, or the id in it is a right of its own.
- A verb with a kind of names, such as `acquire` of a lock: on what the call names. If several are
  listed, it depends on the content: a shared lock needs only `share`, a list leaves out what the
  caller may not see, and a batch or a transaction needs all that its parts need.

The last columns are the [built-in roles](guides/access.md#roles): `yes`, `no`, or `partly` if the
role has only some of the verbs.

";

/// The rights of a user with a built-in role.
fn rights(name: &str) -> Rights {
    let user: UserName = "somebody".parse().unwrap();
    let role: RoleName = name.parse().unwrap();
    Rights::compile(&Principal::user(&user), &Attributes::default(), |_| vec![role.clone()], |_| None)
}

fn described(verb: Verb) -> String {
    match verb.resource().as_str() {
        "locks" => format!("`{verb}` of the lock"),
        "nodes" => format!("`{verb}` of the node"),
        resource => format!("`{verb}` of {resource}"),
    }
}

/// What a rule needs: for people, and as verbs.
fn needs(rule: RouteRule) -> (String, Vec<Verb>) {
    match rule {
        RouteRule::Open => ("anyone".to_owned(), Vec::new()),
        RouteRule::OpenInBrief => (format!("anyone; with details {}", described(Verb::Status)), Vec::new()),
        RouteRule::OpenToBrowsers => (format!("anyone with a browser; otherwise {}", described(Verb::Status)), Vec::new()),
        RouteRule::Credential => ("any credential".to_owned(), Vec::new()),
        RouteRule::Decided(verbs) => {
            let all: Vec<String> = verbs.iter().map(|verb| described(*verb)).collect();
            (all.join(", "), verbs.to_vec())
        }
        RouteRule::Lock(verb) | RouteRule::Cluster(verb) => (described(verb), vec![verb]),
        RouteRule::FileAdmin => ("a token of the administrators' file".to_owned(), vec![Verb::Admin]),
        RouteRule::Node => ("`read` of the node, or `inspect` of the lock".to_owned(), vec![Verb::Read, Verb::Inspect]),
        RouteRule::NumberedSession(verb) => (format!("{}; by its secret id any credential", described(verb)), vec![verb]),
    }
}

fn cell(rights: &Rights, verbs: &[Verb]) -> &'static str {
    match verbs.iter().filter(|verb| rights.has(**verb)).count() {
        0 if !verbs.is_empty() => "no",
        found if found == verbs.len() => "yes",
        _ => "partly",
    }
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    let roles = role::BUILT_IN.map(|name| (name, rights(name)));
    let names: Vec<&str> = roles.iter().map(|(name, _)| *name).collect();
    writeln!(page, "| call | it needs | {} |", names.join(" | ")).unwrap();
    writeln!(page, "|---|---|{}", "---|".repeat(names.len())).unwrap();
    for (path, method, rule) in CALLS {
        let (text, verbs) = needs(*rule);
        let of_role = |rights| if *rule == RouteRule::FileAdmin { "no" } else { cell(rights, &verbs) };
        let cells: Vec<&str> = roles.iter().map(|(_, rights)| of_role(rights)).collect();
        writeln!(page, "| `{method} {path}` | {text} | {} |", cells.join(" | ")).unwrap();
    }
    page
}

#[test]
fn the_page_about_rights_has_the_rule_of_each_call() {
    let page = page();
    if std::env::var("FAIRHOLD_GOLDEN").is_ok_and(|value| value == "write") {
        fs::write(FILE, &page).unwrap();
    }
    let committed = fs::read_to_string(FILE).unwrap_or_default();
    assert!(page == committed, "{FILE} is out of date: FAIRHOLD_GOLDEN=write rewrites it");
}

#[test]
fn each_built_in_role_may_do_what_its_name_says() {
    let may = |name: &str, verb: Verb| rights(name).has(verb);
    for verb in Verb::ALL {
        assert!(may(role::ADMIN, verb), "{verb}");
        let changes = !matches!(verb, Verb::Read | Verb::Inspect | Verb::Status);
        assert!(!(changes && may("viewer", verb)), "{verb}");
    }
    for verb in [Verb::Acquire, Verb::Share, Verb::Read, Verb::Write, Verb::Admin, Verb::Audit, Verb::Backup] {
        assert!(!may("operator", verb), "{verb}");
    }
}
