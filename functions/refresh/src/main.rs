//! The `refresh` function: wiring only; the work is `outrigger_engine::refresh`.

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), outrigger_runtime::Error> {
    outrigger_runtime::refresh().await
}
