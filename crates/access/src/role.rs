//! The roles that every cluster has. Others are made by administrators.

use crate::{
    rule::Rule,
    verb::{ResourceKind, Verb},
};
use std::sync::LazyLock;

/// May do everything.
pub const ADMIN: &str = "admin";

/// The names of the built-in roles.
pub const BUILT_IN: [&str; 5] = [ADMIN, "operator", "auditor", "viewer", "backup"];

static RULES: LazyLock<[Vec<Rule>; 5]> = LazyLock::new(|| BUILT_IN.map(rules_of));

/// The rules of a built-in role; `None` for any other name.
#[must_use]
pub fn built_in(name: &str) -> Option<&'static [Rule]> {
    let index = BUILT_IN.iter().position(|known| *known == name)?;
    RULES.get(index).map(Vec::as_slice)
}

fn rules_of(name: &str) -> Vec<Rule> {
    let cluster = |verbs: &[Verb]| Rule::new(verbs, 0, ResourceKind::Cluster);
    let locks = |verbs: &[Verb]| Rule::new(verbs, 0, ResourceKind::Locks);
    let end = || Rule::new(&[Verb::End], 0, ResourceKind::Sessions);
    match name {
        ADMIN => ResourceKind::ALL
            .map(|resource| {
                let verbs: Vec<Verb> = Verb::ALL.into_iter().filter(|verb| verb.resource() == resource).collect();
                let priority_max = if resource == ResourceKind::Locks { i32::MAX } else { 0 };
                Rule::new(&verbs, priority_max, resource)
            })
            .into(),
        // It repairs, but it takes no lock for itself and reads no value.
        "operator" => {
            vec![locks(&[Verb::Inspect, Verb::Revoke, Verb::Break, Verb::Set]), end(), cluster(&[Verb::Status, Verb::Operate])]
        }
        "auditor" => vec![cluster(&[Verb::Status, Verb::Audit])],
        "viewer" => {
            let read = Rule::new(&[Verb::Read], 0, ResourceKind::Nodes);
            vec![locks(&[Verb::Inspect]), read, cluster(&[Verb::Status])]
        }
        _ => vec![cluster(&[Verb::Status, Verb::Backup])],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_roles_are_those_of_the_manual() {
        let printed: Vec<String> = BUILT_IN
            .into_iter()
            .map(|name| {
                let rules: Vec<String> = built_in(name).unwrap().iter().map(Rule::to_string).collect();
                format!("{name}: {}", rules.join(" | "))
            })
            .collect();
        assert_eq!(
            printed,
            [
                "admin: acquire,share,inspect,fence,revoke,break,set,priority<=2147483647 locks:** | read,write nodes:** \
                 | end sessions | status,operate,backup,audit,admin cluster",
                "operator: inspect,revoke,break,set locks:** | end sessions | status,operate cluster",
                "auditor: status,audit cluster",
                "viewer: inspect locks:** | read nodes:** | status cluster",
                "backup: status,backup cluster",
            ]
        );
        assert_eq!(built_in("deployers"), None);
    }
}
