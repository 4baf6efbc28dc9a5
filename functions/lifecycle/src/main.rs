//! The `lifecycle` function: wiring only; the work is `outrigger_engine::lifecycle`.

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), outrigger_runtime::Error> {
    outrigger_runtime::lifecycle().await
}
