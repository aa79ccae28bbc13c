//! Clients that read and write nodes.

use super::{Keys, locks::pause};
use crate::client::ChaosClient;
use rand::RngExt;
use std::sync::Arc;

pub(super) async fn run(mut client: ChaosClient, keys: Arc<Keys>) {
    while !client.is_over() {
        let key = format!("chaos/{}", keys.next());
        match client.random.random_range(0..10) {
            0..=3 => drop(client.read(&key).await),
            4..=6 => drop(client.write(&key, None).await),
            _cas => {
                if let Some((Some(version), _)) = client.read(&key).await {
                    client.write(&key, Some(version)).await;
                }
            }
        }
        pause(&mut client, 30).await;
    }
}
