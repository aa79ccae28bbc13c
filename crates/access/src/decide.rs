//! The decision: whether a principal may do something, and by which rule.
//!
//! The rights of a principal are compiled once for a revision of the access data. Rights only add up, so the order of rules
//! means nothing, and a right on all names of a pattern is decided by containment.

use crate::{
    binding::Subject,
    name::RoleName,
    need::{Names, Need},
    pattern::Pattern,
    principal::{Attributes, Principal},
    role,
    rule::Rule,
    verb::{ResourceKind, Verb},
};
use std::collections::{BTreeMap, BTreeSet};

/// What a principal may do.
#[derive(Debug, Clone, Default)]
pub struct Rights {
    principal: String,
    roles: Vec<RoleName>,
    locks: NamedRights,
    nodes: NamedRights,
    unnamed: Vec<CompiledRule>,
}

/// A rule for one principal.
#[derive(Debug, Clone)]
struct CompiledRule {
    rule: Rule,
    /// The pattern of the rule, with the values of the attributes.
    pattern: Pattern,
    /// The index of its role.
    role: usize,
}

/// The rules about locks, or about nodes, by the first level of their patterns.
#[derive(Debug, Clone, Default)]
struct NamedRights {
    by_first_level: BTreeMap<Box<str>, Vec<CompiledRule>>,
    /// The rules whose first level is not a literal.
    others: Vec<CompiledRule>,
}

/// The rule that allows a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permission<'a> {
    /// The role.
    pub role: &'a RoleName,
    /// One of its rules.
    pub rule: &'a Rule,
}

/// The refusal of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it needs {needs} on {on}: {because}")]
pub struct Denied {
    /// The verb that it needs, such as `acquire`.
    pub needs: String,
    /// On what, such as `locks:orders/42`.
    pub on: String,
    /// Why it is refused, for people.
    pub because: String,
}

impl Rights {
    /// Compiles the rights of a principal. `bound` has the roles that are bound to a subject, and `rules` those of a role; a
    /// role without rules gives no rights. A principal of the kind `file` is always an administrator.
    pub fn compile<'a>(
        principal: &Principal,
        attributes: &Attributes,
        bound: impl Fn(&Subject) -> Vec<RoleName>,
        rules: impl Fn(&RoleName) -> Option<&'a [Rule]>,
    ) -> Rights {
        let mut roles: Vec<RoleName> = Subject::all_of(principal).flat_map(|subject| bound(&subject)).collect();
        roles.extend(principal.is_file().then(|| RoleName::parse(role::ADMIN).ok()).flatten());
        roles.sort();
        roles.dedup();
        let mut rights = Rights { principal: principal.to_string(), ..Rights::default() };
        for (index, name) in roles.iter().enumerate() {
            let rules = role::built_in(name.as_str()).or_else(|| rules(name)).unwrap_or_default();
            rules.iter().for_each(|rule| rights.add(rule, index, attributes));
        }
        rights.roles = roles;
        rights
    }

    fn add(&mut self, rule: &Rule, role: usize, attributes: &Attributes) {
        let Some(pattern) = rule.pattern().resolve(attributes) else { return };
        let compiled = CompiledRule { rule: rule.clone(), pattern, role };
        match rule.resource() {
            ResourceKind::Locks => self.locks.add(compiled),
            ResourceKind::Nodes => self.nodes.add(compiled),
            ResourceKind::Sessions | ResourceKind::Cluster => self.unnamed.push(compiled),
        }
    }

    /// The roles of the principal, by name.
    #[must_use]
    pub fn roles(&self) -> &[RoleName] {
        &self.roles
    }

    /// Whether the verb is allowed on anything.
    #[must_use]
    pub fn has(&self, verb: Verb) -> bool {
        let gives = |compiled: &CompiledRule| compiled.rule.verbs().allows(verb);
        match verb.resource() {
            ResourceKind::Locks => self.locks.all().any(gives),
            ResourceKind::Nodes => self.nodes.all().any(gives),
            ResourceKind::Sessions | ResourceKind::Cluster => self.unnamed.iter().any(gives),
        }
    }

    /// The patterns of the locks on which the verb is allowed. Two principals with equal patterns are allowed it on the same
    /// locks, except for priorities.
    #[must_use]
    pub fn lock_patterns(&self, verb: Verb) -> BTreeSet<Pattern> {
        let allowing = self.locks.all().filter(|compiled| compiled.rule.verbs().allows(verb));
        allowing.map(|compiled| compiled.pattern.clone()).collect()
    }

    /// Whether the principal may do it: the rule that allows it, or what is missing.
    pub fn decide(&self, need: &Need<'_>) -> Result<Permission<'_>, Denied> {
        let named = match need.verb().resource() {
            ResourceKind::Locks => &self.locks,
            ResourceKind::Nodes => &self.nodes,
            ResourceKind::Sessions | ResourceKind::Cluster => {
                let found = self.unnamed.iter().find(|compiled| compiled.gives(need));
                return self.permission(found, need);
            }
        };
        let found = match need.names() {
            Names::One(name) => named.of_name(name).find(|compiled| compiled.gives(need) && compiled.pattern.matches(name)),
            Names::Every(scope) => named.all().find(|compiled| compiled.gives(need) && compiled.pattern.contains(scope)),
            Names::Unnamed => None,
        };
        self.permission(found, need)
    }

    fn permission<'a>(&'a self, found: Option<&'a CompiledRule>, need: &Need<'_>) -> Result<Permission<'a>, Denied> {
        let permission = found.and_then(|found| Some(Permission { role: self.roles.get(found.role)?, rule: &found.rule }));
        permission.ok_or_else(|| Denied { needs: need.needs(), on: need.on(), because: self.why_not(need) })
    }

    fn why_not(&self, need: &Need<'_>) -> String {
        if self.roles.is_empty() {
            return format!("no role is bound to {}", self.principal);
        }
        let roles: Vec<&str> = self.roles.iter().map(RoleName::as_str).collect();
        format!("no rule of {} allows {need}", roles.join(", "))
    }
}

impl CompiledRule {
    /// Whether it gives the verb, for some names.
    fn gives(&self, need: &Need<'_>) -> bool {
        self.rule.verbs().allows(need.verb()) && need.priority() <= self.rule.priority_max()
    }
}

impl NamedRights {
    fn add(&mut self, compiled: CompiledRule) {
        match compiled.pattern.first_literal() {
            Some(first) => self.by_first_level.entry(first.into()).or_default().push(compiled),
            None => self.others.push(compiled),
        }
    }

    /// The rules that may cover a name.
    fn of_name(&self, name: &str) -> impl Iterator<Item = &CompiledRule> {
        let first = name.split('/').next().unwrap_or_default();
        self.by_first_level.get(first).into_iter().flatten().chain(&self.others)
    }

    fn all(&self) -> impl Iterator<Item = &CompiledRule> {
        self.by_first_level.values().flatten().chain(&self.others)
    }
}

/// Whether some principal besides those of a file may change the access data. `bindings` has each subject with the rules
/// of a role that is bound to it.
pub fn has_administrator<'a>(mut bindings: impl Iterator<Item = (&'a Subject, &'a [Rule])>) -> bool {
    bindings.any(|(subject, rules)| {
        let administers = rules.iter().any(|rule| rule.verbs().allows(Verb::Admin));
        administers && *subject != Subject::exact(&Principal::anonymous()) && !subject.as_str().starts_with("file:")
    })
}
