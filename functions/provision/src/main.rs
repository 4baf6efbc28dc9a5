//! The `provision` function: wiring only; the work is `outrigger_engine::provision`.

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), outrigger_runtime::Error> {
    outrigger_runtime::provision().await
}
