//! The `disrupt` function: wiring only; the work is `outrigger_engine::disrupt`.

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), outrigger_runtime::Error> {
    outrigger_runtime::disrupt().await
}
