//! An operator who finalizes the upgrade of the cluster as soon as every member runs the newer program.

use super::held_grant::TRIES;
use crate::{
    client::{ClientRequest, SimClient},
    coverage::Probe,
};
use http::{Method, StatusCode};

pub(super) async fn work(mut client: SimClient) {
    loop {
        client.idle(1_500).await;
        // The leader knows the members' programs, and the node that answers its own state: no barrier precedes this read.
        let show = ClientRequest::new(Method::GET, "/v1/cluster/upgrade").local();
        let Some(status) = client.call_once(&show).await else { continue };
        // A node with the older program says that there is no next version.
        if status.json["cluster_version"].as_u64() == Some(2) {
            return;
        }
        if status.json["ready"] != true {
            continue;
        }
        let request = ClientRequest::new(Method::POST, "/v1/cluster/upgrade/finalize?to=2");
        let Some(reply) = client.call_until_known(&request, TRIES).await else { continue };
        match (reply.status, reply.field("code")) {
            (StatusCode::OK, _) => client.world.coverage.probe(Probe::UpgradeFinalized),
            // A node has restarted with the older program since then, or this one has.
            (StatusCode::CONFLICT, "not_all_upgraded") => client.world.coverage.probe(Probe::UpgradeBlocked),
            (StatusCode::BAD_REQUEST, _) => {}
            _ => client.unexpected("the end of an upgrade", &reply),
        }
    }
}
