//! The example on the first page of the documentation: `cargo run --example front_page`, while `fairhold dev` runs.

/// The work under the lock.
async fn deploy(token: fairhold_client::FencingToken) {
    eprintln!("deploying, with token {token}");
}

#[rustfmt::skip]
pub(crate) async fn example(url: &str) -> Result<(), fairhold_client::Error> {
let client = fairhold_client::Client::new(url)?;
let guard = client.lock("deploy").await?; //              queues, for as long as it takes
let token = guard.token()?; //                            for every write; an error once the lock is lost
tokio::select! {
    _ = guard.lost() => eprintln!("stop: the lock is gone"),
    _ = deploy(token) => guard.release().await?, //       or just drop it
}
Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), fairhold_client::Error> {
    example("http://127.0.0.1:7171").await
}
