//! Describes the calls on access rights.

use super::{
    describe::{DescribeCall, Describer, Operation},
    operation::OperationKind::{Here, Keyed, Read},
};
use fairhold_types::{Code, call, dto};
use http::{Method, StatusCode};
use serde_json::{Value, json};

const TAG: &str = "access";
const AT: &str = "2026-01-01T12:00:00.000Z";

pub(super) const CALLS: &[DescribeCall] = &[
    status,
    enable,
    disable,
    whoami,
    check,
    list_roles,
    show_role,
    put_role,
    delete_role,
    list_bindings,
    bind,
    unbind,
    list_users,
    set_user,
    create_token,
    list_tokens,
    revoke_token,
    list_tenants,
    show_tenant,
    put_tenant,
    delete_tenant,
];

fn name(example: &str) -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$", "example": example })
}

fn subject() -> Value {
    let pattern = "^(anonymous|[a-z][a-z0-9-]*:.+)$";
    json!({ "type": "string", "minLength": 1, "maxLength": 161, "pattern": pattern, "example": "user:ci" })
}

fn status(api: &mut Describer) -> Operation<'_> {
    let example = json!({
        "mode": "on", "revision": 812, "narrowed_at": 640, "roles": 3, "bindings": 12, "tokens": 7, "disabled_users": 0,
        "tenants": 2,
    });
    api.call(Read, "/v1/access", "getAccess", TAG, "Show whether access rights are enforced, and how much data there is.")
        .about("For administrators.")
        .query::<call::ReadAccess>()
        .json::<dto::AccessStatus>("The status.", example)
        .admin()
}

fn enable(api: &mut Describer) -> Operation<'_> {
    api.call(Keyed(Method::POST), "/v1/access/enable", "enableAccess", TAG, "Begin to enforce access rights.")
        .about(
            "For administrators. Refused with `would_lock_out` unless a principal besides those of the administrators' file may \
             change the access data. Requests that are under way are answered with `stale_access`, and streams end with it: \
             send them again, with a token.",
        )
        .json::<dto::AccessMode>("Rights are enforced.", json!({ "mode": "on", "revision": 812 }))
        .codes(&[Code::NeedsUpgrade, Code::WouldLockOut])
        .admin()
}

fn disable(api: &mut Describer) -> Operation<'_> {
    api.call(Keyed(Method::POST), "/v1/access/disable", "disableAccess", TAG, "Stop to enforce access rights.")
        .about("Only with a token of the file of `serve --admin-token-file`.")
        .json::<dto::AccessMode>("Rights are not enforced.", json!({ "mode": "off", "revision": 815 }))
        .codes(&[Code::NeedsUpgrade])
        .admin()
}

fn whoami(api: &mut Describer) -> Operation<'_> {
    let example = json!({
        "principal": "user:ci", "kind": "token", "ends": "2026-04-01T12:00:00.000Z", "roles": ["deployers"], "tenant": "web",
    });
    api.call(Here, "/v1/access/whoami", "whoAmI", TAG, "Show the caller as this server sees it.")
        .json::<dto::WhoAmI>("The caller.", example)
        .codes(&[Code::BadRequest, Code::WrongCluster, Code::Unauthenticated, Code::Denied])
}

fn check(api: &mut Describer) -> Operation<'_> {
    let example = json!({ "allowed": false, "because": "no rule of deployers allows acquire on locks:db" });
    api.call(Keyed(Method::POST), "/v1/access/check", "checkAccess", TAG, "Check whether a principal may do something, and why.")
        .about("For administrators, and for everyone about themselves. It works before rights are enforced too.")
        .form::<call::CheckAccess>(None, json!({ "as": "user:ci", "verb": "acquire", "on": "locks:db" }))
        .json::<dto::AccessCheck>("The decision.", example)
        .admin()
}

fn role() -> Value {
    json!({
        "name": "deployers", "rules": ["acquire,inspect locks:deploy/**", "read,write nodes:app/{user}/**"], "built_in": false,
        "revision": 640, "by": "file:admin", "at": AT,
    })
}

fn list_roles(api: &mut Describer) -> Operation<'_> {
    let viewer = json!({
        "name": "viewer", "rules": ["inspect locks:**", "read nodes:**", "status cluster"], "built_in": true, "revision": 0,
    });
    api.call(Read, "/v1/access/roles", "listRoles", TAG, "List the roles.")
        .about("For administrators.")
        .query::<call::ReadAccess>()
        .json::<dto::RoleList>("The built-in roles, then the others.", json!({ "roles": [viewer, role()] }))
        .admin()
}

fn show_role(api: &mut Describer) -> Operation<'_> {
    api.call(Read, "/v1/access/roles/{name}", "getRole", TAG, "Show a role.")
        .about("For administrators.")
        .in_path("name", "The role's name.", name("deployers"))
        .query::<call::ReadAccess>()
        .json::<dto::RoleEntry>("The role.", role())
        .answer_header(StatusCode::OK, "ETag", "Its revision, for `If-Match`.", json!({ "type": "string" }))
        .codes(&[Code::NotFound])
        .admin()
}

fn conditional<'a>(operation: Operation<'a>, of: &str) -> Operation<'a> {
    let (tag, none) =
        (json!({ "type": "string", "example": "\"640\"" }), json!({ "type": "string", "enum": ["*"], "example": "*" }));
    operation
        .header("If-Match", &format!("The ETag that the {of} must have."), tag)
        .header("If-None-Match", &format!("`*`: the {of} must not exist."), none)
        .codes(&[Code::NeedsUpgrade, Code::VersionMismatch])
        .admin()
}

fn put_role(api: &mut Describer) -> Operation<'_> {
    let example = json!({ "rules": ["acquire,inspect locks:deploy/**", "read,write nodes:app/{user}/**"] });
    let call = api
        .call(Keyed(Method::PUT), "/v1/access/roles/{name}", "putRole", TAG, "Create a role, or replace its rules.")
        .about(
            "For administrators. A rule is verbs and what they act on: `locks:PATTERN`, `nodes:PATTERN`, `sessions` or \
             `cluster`. In a pattern `*` is one level, `**` at the end everything from there on, and `{user}` the name of the \
             caller. `bad_rule` names the rule and the place in it.",
        )
        .in_path("name", "The role's name.", name("deployers"))
        .form::<call::PutRole>(None, example)
        .json::<dto::RoleEntry>("The role.", role())
        .answer_header(StatusCode::OK, "ETag", "Its revision, for `If-Match`.", json!({ "type": "string" }))
        .codes(&[Code::BadRule, Code::WouldLockOut, Code::InUse]);
    conditional(call, "role")
}

fn delete_role(api: &mut Describer) -> Operation<'_> {
    let call = api
        .call(Keyed(Method::DELETE), "/v1/access/roles/{name}", "deleteRole", TAG, "Remove a role.")
        .about("For administrators. A role with bindings stays, unless you pass `force`. If it does not exist: also `204`.")
        .in_path("name", "The role's name.", name("deployers"))
        .query::<call::DeleteRole>()
        .empty(StatusCode::NO_CONTENT, "There is no such role any more.")
        .codes(&[Code::WouldLockOut, Code::InUse]);
    conditional(call, "role")
}

fn list_bindings(api: &mut Describer) -> Operation<'_> {
    let binding = json!({ "role": "deployers", "subject": "user:ci", "by": "file:admin", "at": AT });
    api.call(Read, "/v1/access/bindings", "listBindings", TAG, "List which subjects have which roles.")
        .about("For administrators.")
        .query::<call::ReadAccess>()
        .json::<dto::BindingList>("The bindings.", json!({ "bindings": [binding] }))
        .admin()
}

fn bind(api: &mut Describer) -> Operation<'_> {
    let path = "/v1/access/bindings/{role}/{subject}";
    api.call(Keyed(Method::PUT), path, "bindRole", TAG, "Give a role to a subject.")
        .about("For administrators. A subject is a principal, or all whose text begins alike: `user:ci`, `user:*`.")
        .in_path("role", "The role's name.", name("deployers"))
        .in_path("subject", "The subject.", subject())
        .empty(StatusCode::NO_CONTENT, "The subject has the role.")
        .codes(&[Code::NeedsUpgrade, Code::NotFound])
        .admin()
}

fn unbind(api: &mut Describer) -> Operation<'_> {
    let path = "/v1/access/bindings/{role}/{subject}";
    api.call(Keyed(Method::DELETE), path, "unbindRole", TAG, "Take a role from a subject.")
        .about("For administrators. If it is not bound: also `204`.")
        .in_path("role", "The role's name.", name("deployers"))
        .in_path("subject", "The subject.", subject())
        .empty(StatusCode::NO_CONTENT, "The subject does not have the role.")
        .codes(&[Code::NeedsUpgrade, Code::WouldLockOut])
        .admin()
}

fn list_users(api: &mut Describer) -> Operation<'_> {
    let user = json!({ "name": "gone", "disabled": true, "by": "file:admin", "at": AT });
    api.call(Read, "/v1/access/users", "listUsers", TAG, "List the users that are disabled.")
        .about("For administrators. Users are names in bindings and tokens: nobody creates them, so there is no list of all.")
        .query::<call::ReadAccess>()
        .json::<dto::UserList>("The users.", json!({ "users": [user] }))
        .admin()
}

fn set_user(api: &mut Describer) -> Operation<'_> {
    api.call(Keyed(Method::PUT), "/v1/access/users/{name}", "setUser", TAG, "Disable or enable a user.")
        .about("For administrators. Disabling revokes the user's tokens, and they stay revoked when it is enabled again.")
        .in_path("name", "The user's name.", name("ci"))
        .form::<call::SetUser>(None, json!({ "disabled": true, "end_sessions": true }))
        .json::<dto::UserEntry>("The user.", json!({ "name": "ci", "disabled": true }))
        .codes(&[Code::NeedsUpgrade, Code::WouldLockOut])
        .admin()
}

fn create_token(api: &mut Describer) -> Operation<'_> {
    let created = json!({ "number": 7, "token": "fht_YSBzZWNyZXQg…", "expires_at": "2026-04-01T12:00:00.000Z" });
    api.call(Keyed(Method::POST), "/v1/access/tokens", "createAccessToken", TAG, "Create a token for a user.")
        .about(
            "For administrators. With `hash`, the caller has made the token and no server ever sees it: a repeated request gets \
             the same number. Without it, the server makes the token and shows it once: a repeated request is `already_issued`.",
        )
        .form::<call::CreateAccessToken>(None, json!({ "user": "ci", "ttl": "90d" }))
        .json_as::<dto::CreatedAccessToken>(StatusCode::CREATED, "The token.", created)
        .codes(&[Code::NeedsUpgrade, Code::AlreadyIssued])
        .admin()
}

fn list_tokens(api: &mut Describer) -> Operation<'_> {
    let token = json!({
        "number": 7, "user": "ci", "by": "file:admin", "created_at": AT, "expires_at": "2026-04-01T12:00:00.000Z",
    });
    let page = json!({ "items": [token], "next_cursor": null });
    api.call(Read, "/v1/access/tokens", "listAccessTokens", TAG, "List the tokens, without their secrets.")
        .about("For administrators. An expired token stays in the list for a day.")
        .query::<call::ListAccessTokens>()
        .page::<dto::Page<dto::AccessTokenEntry>>("The tokens, by their numbers.", page)
        .admin()
}

fn revoke_token(api: &mut Describer) -> Operation<'_> {
    let number = json!({ "type": "string", "pattern": "^0*[1-9][0-9]{0,15}$", "example": "7" });
    api.call(Keyed(Method::DELETE), "/v1/access/tokens/{number}", "revokeAccessToken", TAG, "Revoke a token.")
        .about(
            "For administrators. After the answer nothing is done with this token any more. If it was revoked before: also \
             `204`.",
        )
        .in_path("number", "The token's number.", number)
        .query::<call::RevokeAccessToken>()
        .empty(StatusCode::NO_CONTENT, "The token is revoked.")
        .codes(&[Code::NeedsUpgrade, Code::NotFound])
        .admin()
}

fn tenant() -> Value {
    json!({
        "name": "web", "subjects": ["k8s:system:serviceaccount:web:*"], "prefixes": ["locks:web/**", "nodes:web/**"],
        "quotas": {
            "nodes": { "limit": 10_000, "used": 312 }, "bytes": { "limit": 10_000_000, "used": 48_210 },
            "contenders": { "limit": 1_000, "used": 17 }, "waiters": { "limit": 100 }, "sessions": { "limit": 200, "used": 9 },
            "tokens": { "used": 0 }, "requests_per_second": { "limit": 500 }, "burst": { "limit": 1_000 },
            "waits": { "limit": 200, "used": 3 }, "watches": { "limit": 50, "used": 1 },
        },
        "counting": false, "revision": 640, "by": "file:admin", "at": AT,
    })
}

fn list_tenants(api: &mut Describer) -> Operation<'_> {
    api.call(Read, "/v1/access/tenants", "listTenants", TAG, "List the tenants.")
        .about("For administrators.")
        .query::<call::ReadAccess>()
        .json::<dto::TenantList>("The tenants.", json!({ "tenants": [tenant()] }))
        .admin()
}

fn show_tenant(api: &mut Describer) -> Operation<'_> {
    api.call(Read, "/v1/access/tenants/{name}", "getTenant", TAG, "Show a tenant with its quotas and their use.")
        .about("For administrators.")
        .in_path("name", "The tenant's name.", name("web"))
        .query::<call::ReadAccess>()
        .json::<dto::TenantEntry>("The tenant.", tenant())
        .answer_header(StatusCode::OK, "ETag", "Its revision, for `If-Match`.", json!({ "type": "string" }))
        .codes(&[Code::NotFound])
        .admin()
}

fn put_tenant(api: &mut Describer) -> Operation<'_> {
    let example = json!({
        "subjects": ["k8s:system:serviceaccount:web:*"], "prefixes": ["locks:web/**", "nodes:web/**"], "nodes": 10_000,
        "bytes": 10_000_000, "contenders": 1_000, "waiters": 100, "sessions": 200, "requests_per_second": 500, "burst": 1_000,
        "waits": 200, "watches": 50,
    });
    let call = api
        .call(Keyed(Method::PUT), "/v1/access/tenants/{name}", "putTenant", TAG, "Create a tenant, or replace all of it.")
        .about(
            "For administrators. No name and no principal may belong to two tenants: `overlaps` says whose it is. What another \
             entry covers is left out. A quota that is not given is unlimited. A quota below the use takes nothing away: it \
             refuses what is new. What exists below a new prefix is counted in pieces; `counting` says whether that is done.",
        )
        .in_path("name", "The tenant's name.", name("web"))
        .form::<call::PutTenant>(None, example)
        .json::<dto::TenantEntry>("The tenant.", tenant())
        .answer_header(StatusCode::OK, "ETag", "Its revision, for `If-Match`.", json!({ "type": "string" }))
        .codes(&[Code::Overlaps]);
    conditional(call, "tenant")
}

fn delete_tenant(api: &mut Describer) -> Operation<'_> {
    let call = api
        .call(Keyed(Method::DELETE), "/v1/access/tenants/{name}", "deleteTenant", TAG, "Remove a tenant.")
        .about("For administrators. What it has stays. If it does not exist: also `204`.")
        .in_path("name", "The tenant's name.", name("web"))
        .empty(StatusCode::NO_CONTENT, "There is no such tenant any more.");
    conditional(call, "tenant")
}
