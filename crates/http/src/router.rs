//! Maps each path and method to its call.

use crate::{
    api::access,
    api::acts,
    api::backup,
    api::batch,
    api::cluster::{self, ReadyDetails},
    api::elections,
    api::events,
    api::front_page::front_page,
    api::grant_list,
    api::grants,
    api::history,
    api::locks,
    api::membership,
    api::nodes,
    api::overview,
    api::sessions,
    api::txn,
    api::ui::{self, Dashboard},
    api::watch,
    audit::Audit,
    edge::api_service::ApiService,
    edge::authenticator::Authenticator,
    edge::metrics::Exposition,
    edge::middleware::{self, MiddlewareContext},
    edge::problem::Problem,
    edge::server_info::ServerInfo,
    openapi,
    routes::{Methods, Route, Routes, delete, get, post, put},
};
use axum::{
    extract::{RawQuery, Request, State},
    response::{IntoResponse, Response},
};
use fairhold_node::Node;
use fairhold_types::Code;
use futures_util::{FutureExt, future::ready};
use http::{HeaderMap, Uri, header};
use openraft_rt::AsyncRuntime;
use std::sync::Arc;

/// The whole API of a node.
pub fn router<RT: AsyncRuntime>(
    node: Node<RT>,
    info: ServerInfo,
    dashboard: Dashboard,
    authenticator: Authenticator,
    exposition: Exposition,
    audit: Audit,
) -> ApiService {
    let context = MiddlewareContext::new(node, exposition.http(), Some(authenticator), audit);
    service(context, routes(info, dashboard, exposition), no_such_resource)
}

/// The status of a node: `/livez`, `/readyz` and `/metrics`. It is for a separate listener, whose connections clients
/// cannot use up.
pub fn status_router<RT: AsyncRuntime>(node: Node<RT>, info: ServerInfo, exposition: Exposition) -> ApiService {
    let context = MiddlewareContext::new(node, exposition.http(), None, Audit::off());
    let routes = state_routes(Routes::new(exposition.http()), info, ReadyDetails::OnlyIfUnenforced, exposition);
    service(context, routes, no_such_state)
}

/// Answers the requests for these routes, and refuses all others.
fn service<RT: AsyncRuntime>(
    context: MiddlewareContext<RT>,
    routes: Routes<Node<RT>>,
    no_such_path: fn(&Uri) -> Problem,
) -> ApiService {
    let api = Arc::new((context, routes));
    ApiService::new(move |mut request| {
        let api = Arc::clone(&api);
        let answer = async move {
            let (context, routes) = &*api;
            let route = routes.find(request.uri().path());
            let next = |request: Request, node: Node<RT>| match route.map(|route| (route, route.call(request.method()))) {
                Some((_, Some(call))) => call(request, node),
                Some((route, None)) => ready(no_such_method(route)).boxed(),
                None => ready(no_such_path(request.uri()).into_response()).boxed(),
            };
            middleware::wrap(context, route, &mut request, next).await
        };
        answer.boxed()
    })
}

/// The paths of the status listener.
fn state_routes<RT: AsyncRuntime>(
    routes: Routes<Node<RT>>,
    info: ServerInfo,
    details: ReadyDetails,
    exposition: Exposition,
) -> Routes<Node<RT>> {
    let show_metrics = move |headers: HeaderMap| async move { exposition.answer(&headers) };
    let show_ready = move |node: State<Node<RT>>, query: RawQuery| cluster::ready(node, info, details, query);
    routes.route("/livez", get(cluster::live)).route("/readyz", get(show_ready)).route("/metrics", get(show_metrics))
}

/// Every path. A test compares them with the API description.
pub(crate) fn routes<RT: AsyncRuntime>(info: ServerInfo, dashboard: Dashboard, exposition: Exposition) -> Routes<Node<RT>> {
    let show_cluster = move |node: State<Node<RT>>, query: RawQuery| cluster::cluster(node, info, query);
    let show_overview = move |node: State<Node<RT>>, request: Request| overview::overview(node, info, request);
    let show_version = move |node: State<Node<RT>>| cluster::version(node, info);
    let of_front_page = dashboard.clone();
    let show_front_page = move |node: State<Node<RT>>, headers: HeaderMap| front_page(node, info, of_front_page, headers);
    let routes = election_routes(Routes::new(exposition.http()))
        .route("/v1/locks", post(grants::acquire_many::<RT>).get(locks::list::<RT>))
        .route("/v1/locks/{name}", post(grants::acquire::<RT>).get(locks::show::<RT>).patch(locks::set::<RT>))
        .route("/v1/locks/{name}/queue", get(locks::queue::<RT>))
        .route("/v1/locks/{name}/history", get(history::history::<RT>))
        .route("/v1/history", get(history::all::<RT>))
        .route("/v1/locks/{name}/fence", get(locks::fence::<RT>))
        .route("/v1/locks/{name}/holders", delete(locks::break_lock::<RT>))
        .route("/v1/locks/{name}/holders/revoke", post(locks::revoke::<RT>))
        .route("/v1/grants", get(grant_list::list::<RT>))
        .route("/v1/grants/{id}", get(grants::show::<RT>).delete(grants::release::<RT>))
        .route("/v1/grants/{id}/renew", post(grants::renew::<RT>))
        .route("/v1/grants/{id}/downgrade", post(grants::downgrade::<RT>))
        .route("/v1/grants/{id}/upgrade", post(grants::upgrade::<RT>))
        .route("/v1/batch", post(batch::batch::<RT>))
        .route("/v1/sessions", post(sessions::open::<RT>).get(sessions::list::<RT>))
        .route("/v1/sessions/keepalive", post(sessions::keepalive_many::<RT>))
        .route("/v1/sessions/{id}/keepalive", post(sessions::keepalive::<RT>))
        .route("/v1/sessions/{id}", get(sessions::show::<RT>).delete(sessions::close::<RT>))
        .route("/v1/nodes/", node_route::<RT>())
        .route("/v1/nodes/{*path}", node_route::<RT>())
        .route("/v1/txn", post(txn::transact::<RT>))
        .route("/v1/watch", get(watch::watch::<RT>))
        .route("/v1/events", get(events::list::<RT>))
        .route("/v1/overview", get(show_overview))
        .route("/v1/overview/series", get(overview::series::<RT>))
        .route("/v1/waits", get(overview::waits::<RT>))
        .route("/v1/cluster", get(show_cluster))
        .route("/v1/cluster/leader", post(cluster::hand_over::<RT>))
        .route("/v1/cluster/snapshot", post(cluster::take_snapshot::<RT>))
        .route("/v1/cluster/alarms", get(cluster::alarms::<RT>))
        .route("/v1/cluster/backup", get(backup::take::<RT>))
        .route("/v1/cluster/upgrade", get(cluster::show_upgrade::<RT>))
        .route("/v1/cluster/upgrade/finalize", post(cluster::finalize_upgrade::<RT>))
        .route("/v1/cluster/join-tokens", post(membership::create_join_token::<RT>).get(membership::list_join_tokens::<RT>))
        .route("/v1/cluster/join-tokens/{number}", delete(membership::revoke_join_token::<RT>))
        .route("/v1/cluster/members", get(membership::show_members::<RT>))
        .route("/v1/cluster/members/{id}", delete(membership::remove_member::<RT>).patch(membership::set_member::<RT>))
        .route("/v1/cluster/settings", get(membership::show_settings::<RT>).patch(membership::set_settings::<RT>))
        .route("/v1/cluster/timing", get(membership::show_timing::<RT>))
        .route("/v1/audit", get(acts::list::<RT>))
        .route("/", get(show_front_page))
        .route("/version", get(show_version))
        .route("/openapi.json", get(openapi::serve));
    let routes = dashboard_routes(access_routes(routes), dashboard);
    state_routes(routes, info, ReadyDetails::All, exposition)
}

/// The files of the dashboard. The paths exist without it, too: their answers say why they have no file.
fn dashboard_routes<RT: AsyncRuntime>(routes: Routes<Node<RT>>, dashboard: Dashboard) -> Routes<Node<RT>> {
    let (of_folder, of_index, of_file) = (dashboard.clone(), dashboard.clone(), dashboard);
    routes
        .route("/ui", get(move || ui::folder(of_folder)))
        .route("/ui/", get(move |node: State<Node<RT>>, headers: HeaderMap| ui::index(node, of_index, headers)))
        .route("/ui/{*path}", get(move |uri: Uri, headers: HeaderMap| ui::file(uri, of_file, headers)))
}

/// The paths of access rights.
fn access_routes<RT: AsyncRuntime>(routes: Routes<Node<RT>>) -> Routes<Node<RT>> {
    routes
        .route("/v1/access", get(access::status::<RT>))
        .route("/v1/access/enable", post(access::enable::<RT>))
        .route("/v1/access/disable", post(access::disable::<RT>))
        .route("/v1/access/whoami", get(access::whoami::<RT>))
        .route("/v1/access/check", post(access::check::<RT>))
        .route("/v1/access/roles", get(access::roles::list::<RT>))
        .route(
            "/v1/access/roles/{name}",
            get(access::roles::show::<RT>).put(access::roles::put::<RT>).delete(access::roles::delete::<RT>),
        )
        .route("/v1/access/bindings", get(access::roles::list_bindings::<RT>))
        .route("/v1/access/bindings/{role}/{subject}", put(access::roles::bind::<RT>).delete(access::roles::unbind::<RT>))
        .route("/v1/access/users", get(access::users::list::<RT>))
        .route("/v1/access/users/{name}", put(access::users::set::<RT>))
        .route("/v1/access/tokens", post(access::tokens::create::<RT>).get(access::tokens::list::<RT>))
        .route("/v1/access/tokens/{number}", delete(access::tokens::revoke::<RT>))
        .route("/v1/access/tenants", get(access::tenants::list::<RT>))
        .route(
            "/v1/access/tenants/{name}",
            get(access::tenants::show::<RT>).put(access::tenants::put::<RT>).delete(access::tenants::delete::<RT>),
        )
}

fn election_routes<RT: AsyncRuntime>(routes: Routes<Node<RT>>) -> Routes<Node<RT>> {
    routes
        .route("/v1/elections", get(elections::list::<RT>))
        .route("/v1/elections/{name}", post(elections::stand::<RT>).get(elections::leader::<RT>).put(elections::proclaim::<RT>))
}

fn node_route<RT: AsyncRuntime>() -> Methods<Node<RT>> {
    post(nodes::create::<RT>).get(nodes::get::<RT>).put(nodes::put::<RT>).delete(nodes::delete::<RT>)
}

fn no_such_resource(uri: &Uri) -> Problem {
    let named = ["/v1/locks/", "/v1/elections/"].iter().any(|prefix| uri.path().starts_with(prefix));
    let detail = if named {
        "there is nothing at this path: write a / in the name of a lock or election as %2F; /openapi.json lists all calls"
    } else {
        "there is nothing at this path: /openapi.json lists all calls"
    };
    Problem::new(Code::NotFound, detail)
}

fn no_such_state(_: &Uri) -> Problem {
    Problem::new(
        Code::NotFound,
        "this listener serves only /livez, /readyz and /metrics; use the listener for clients for everything else",
    )
}

fn no_such_method<S>(route: &Route<S>) -> Response {
    let problem = Problem::new(
        Code::MethodNotAllowed,
        "this path does not support this method: the header Allow lists the methods that it has, and /openapi.json lists all \
         calls",
    );
    let mut response = problem.into_response();
    response.headers_mut().extend(route.allowed().map(|allowed| (header::ALLOW, allowed)));
    response
}
