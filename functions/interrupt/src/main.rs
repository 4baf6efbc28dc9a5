//! The `interrupt` function: wiring only; the work is `outrigger_engine::interruption`.

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), outrigger_runtime::Error> {
    outrigger_runtime::interrupt().await
}
