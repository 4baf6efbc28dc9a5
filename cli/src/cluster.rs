//! What the commands share that talk to a cluster: a runtime, and the kubeconfig.

use std::path::PathBuf;

use outrigger_kubernetes::client::KubernetesCluster;

use crate::args::Kubeconfig;
use crate::error::CliError;

/// Waits for what a command does.
pub(crate) fn wait_for<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(CliError::Runtime)?.block_on(work)
}

/// The cluster of a kubeconfig.
pub(crate) async fn connect(kubeconfig: &Kubeconfig) -> Result<KubernetesCluster, CliError> {
    Ok(KubernetesCluster::from_kubeconfig(&path(kubeconfig)).await?)
}

/// As kubectl finds it; of several files in `KUBECONFIG` the first.
fn path(kubeconfig: &Kubeconfig) -> PathBuf {
    let named = || {
        let paths = std::env::var_os("KUBECONFIG")?;
        std::env::split_paths(&paths).find(|path| !path.as_os_str().is_empty())
    };
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".kube/config");
    kubeconfig.file.clone().or_else(named).unwrap_or_else(home)
}
