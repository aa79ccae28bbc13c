//! The blocking client, called in async code.

use crate::server::{Action, Server};
use fairhold_client::{Error, blocking::Client};
use serde_json::json;

async fn server() -> Server {
    Server::start(|_, _| Action::Answer(201, "", json!({"path": "/x", "version": 0, "revision": 7}))).await
}

fn put(client: &Client) -> Result<(), Error> {
    client.nodes().put("/x", "1").send().map(drop)
}

fn is_refused_with_a_reason(done: Result<(), Error>) -> bool {
    matches!(done, Err(Error::Invalid(why)) if why.contains("async code") && why.contains("fairhold_client::Client"))
}

#[tokio::test]
async fn a_blocking_call_is_refused_inside_a_task_and_works_outside() {
    let server = server().await;
    let client = Client::new(&server.url).unwrap();
    assert!(is_refused_with_a_reason(put(&client)), "in the first task of a runtime with one thread");
    assert!(is_refused_with_a_reason(client.settled()));
    let (spawned, blocking) = (client.clone(), client.clone());
    assert!(is_refused_with_a_reason(tokio::spawn(async move { put(&spawned) }).await.unwrap()));
    tokio::task::spawn_blocking(move || put(&blocking)).await.unwrap().unwrap();
    assert_eq!(server.recorded("PUT").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocking_call_is_refused_inside_a_task_of_a_multi_thread_runtime() {
    let server = server().await;
    let client = Client::new(&server.url).unwrap();
    assert!(is_refused_with_a_reason(put(&client)));
    let spawned = client.clone();
    assert!(is_refused_with_a_reason(tokio::spawn(async move { put(&spawned) }).await.unwrap()));
    // A thread that has handed its tasks to other threads.
    tokio::task::block_in_place(|| put(&client)).unwrap();
    std::thread::spawn(move || put(&client)).join().unwrap().unwrap();
}
