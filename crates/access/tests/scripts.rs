//! The rules of access as text: each script in `testscripts/` shows one rule by requests and verdicts.
//!
//! A script is lists of commands, `---`, and their output. `UPDATE_GOLDENFILES=1 cargo test -p fairhold-access --test
//! scripts` writes the output into the scripts: read the difference before you keep it.
//!
//! ```text
//! role deployers "acquire,inspect locks:deploy/**" …     tenant NAME subjects=… prefixes=… [of=OTHER]
//! bind deployers k8s:system:serviceaccount:ci:*
//! may user:ci acquire deploy/canary [priority=3] [namespace=ci]      one name
//! may user:ci inspect deploy/** every [namespace=ci]                 all names of a pattern
//! may user:ci operate
//! read-below user:ci /app                                           a node with everything below it
//! roles user:ci             administrable
//! ```

use fairhold_access::{
    Attributes, Need, Pattern, Principal, ResourceKind, Rights, RoleName, Rule, Subject, Tenant, TenantPrefix, Verb,
    decide::has_administrator, role,
};
use fairhold_types::{LockName, Path};
use goldenscript::{ArgumentConsumer, Context};
use std::{collections::BTreeMap, error::Error, fs};

type Fallible<T> = Result<T, Box<dyn Error>>;

/// Roles, bindings and tenants, as the state machine has them.
#[derive(Default)]
struct Access {
    roles: BTreeMap<RoleName, Vec<Rule>>,
    bindings: Vec<(Subject, RoleName)>,
    tenants: BTreeMap<String, Tenant>,
}

fn word<'a>(args: &mut ArgumentConsumer<'a>) -> Fallible<&'a str> {
    args.next_pos().ok_or_else(|| "a word is missing".into())
}

fn split<T: std::str::FromStr>(list: Option<&str>) -> Result<Vec<T>, T::Err> {
    list.into_iter().flat_map(|list| list.split(',')).map(str::parse).collect()
}

impl Access {
    fn rights(&self, principal: &Principal, attributes: Vec<(String, String)>) -> Rights {
        let bound = |subject: &Subject| {
            let bound = self.bindings.iter().filter(|(to, _)| to == subject);
            bound.map(|(_, role)| role.clone()).collect()
        };
        let attributes = Attributes::of(principal, attributes);
        Rights::compile(principal, &attributes, bound, |role| self.roles.get(role).map(Vec::as_slice))
    }

    fn verdict(rights: &Rights, need: &Need<'_>) -> String {
        match rights.decide(need) {
            Ok(permission) => format!("allowed by {}: {}", permission.role, permission.rule),
            Err(denied) => format!("denied: {denied}"),
        }
    }

    fn may(&self, args: &mut ArgumentConsumer<'_>) -> Fallible<String> {
        let principal = Principal::parse(word(args)?)?;
        let verb = word(args)?;
        let verb = Verb::named(verb).ok_or_else(|| format!("no such verb: {verb}"))?;
        let priority = args.take_key("priority").map_or(Ok(0), str::parse)?;
        let name = args.next_pos();
        let every = args.next_pos() == Some("every");
        let attributes = ["namespace", "group", "user"].into_iter().filter_map(|key| Some((key, args.take_key(key)?)));
        let attributes = attributes.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let rights = self.rights(&principal, attributes);
        let verdict = |need: Need<'_>| Access::verdict(&rights, &need.with_priority(priority));
        Ok(match (name, every, verb.resource()) {
            (None, _, _) => verdict(Need::unnamed(verb)),
            (Some(name), true, _) => verdict(Need::on_every(verb, Pattern::parse(name)?)),
            (Some(name), false, ResourceKind::Locks) => verdict(Need::on_lock(verb, &LockName::parse(name)?)),
            (Some(name), false, _) if verb == Verb::Write => verdict(Need::write(&Path::parse(name)?)),
            (Some(name), false, _) => verdict(Need::read(&Path::parse(name)?)),
        })
    }

    fn tenant(&mut self, args: &mut ArgumentConsumer<'_>) -> Fallible<String> {
        let name = word(args)?;
        let tenant = Tenant {
            subjects: split(args.take_key("subjects"))?,
            prefixes: split::<TenantPrefix>(args.take_key("prefixes"))?,
            ..Tenant::default()
        };
        let overlaps = self.tenants.iter().filter_map(|(other, known)| Some((other, tenant.overlap(known)?)));
        if let Some((other, what)) = overlaps.into_iter().next() {
            return Ok(format!("overlaps {other}: {what}"));
        }
        self.tenants.insert(name.to_owned(), tenant);
        Ok("ok".to_owned())
    }
}

impl goldenscript::Runner for Access {
    type Command = goldenscript::Command;

    fn run(&mut self, command: &goldenscript::Command, _context: &Context) -> Fallible<String> {
        let mut args = command.consume_args();
        let output = match command.name.as_str() {
            "role" => {
                let name = RoleName::parse(word(&mut args)?)?;
                let mut rules = Vec::new();
                while let Some(text) = args.next_pos() {
                    match Rule::parse_with(text, |name| ["user", "namespace", "group"].contains(&name)) {
                        Ok(rule) => rules.push(rule),
                        Err(bad) => return Ok(format!("bad rule: {bad}")),
                    }
                }
                let printed: Vec<String> = rules.iter().map(Rule::to_string).collect();
                self.roles.insert(name, rules);
                printed.join("\n")
            }
            "bind" => {
                let role = RoleName::parse(word(&mut args)?)?;
                match Subject::parse(word(&mut args)?) {
                    Ok(subject) => self.bindings.push((subject, role)),
                    Err(bad) => return Ok(format!("bad subject: {bad}")),
                }
                "ok".to_owned()
            }
            "may" => self.may(&mut args)?,
            "tenant" => self.tenant(&mut args)?,
            "read-below" => {
                let principal = Principal::parse(word(&mut args)?)?;
                let rights = self.rights(&principal, Vec::new());
                let needs = Need::read_below(&Path::parse(word(&mut args)?)?);
                needs.iter().map(|need| Access::verdict(&rights, need)).collect::<Vec<_>>().join("\n")
            }
            "roles" => {
                let rights = self.rights(&Principal::parse(word(&mut args)?)?, Vec::new());
                rights.roles().iter().map(RoleName::as_str).collect::<Vec<_>>().join(" ")
            }
            "administrable" => {
                let rules = |role: &RoleName| role::built_in(role.as_str()).or(self.roles.get(role).map(Vec::as_slice));
                let bindings = self.bindings.iter().map(|(to, role)| (to, rules(role).unwrap_or_default()));
                has_administrator(bindings).to_string()
            }
            other => return Err(format!("no such command: {other}").into()),
        };
        args.reject_next()?;
        Ok(output)
    }
}

#[test]
fn scripts() {
    let mut scripts: Vec<_> =
        fs::read_dir("testscripts").unwrap().map(|entry| entry.unwrap().path().canonicalize().unwrap()).collect();
    scripts.sort();
    assert!(scripts.len() > 5, "the scripts are missing");
    for script in scripts {
        let text = fs::read_to_string(&script).unwrap();
        assert!(text.starts_with("# "), "{} does not begin with its rule", script.display());
        if let Err(error) = goldenscript::run(&mut Access::default(), &script) {
            panic!("{}: {error}", script.display());
        }
    }
}

#[test]
fn an_unknown_script_command_is_an_error() {
    for script in ["fly\n---\n", "may user:ci fly a\n---\n", "may user:ci acquire a colour=red\n---\n"] {
        assert!(goldenscript::generate(&mut Access::default(), script).is_err(), "{script} was taken");
    }
}
