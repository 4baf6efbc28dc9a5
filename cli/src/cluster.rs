//! What the commands share that talk to a cluster: a runtime, the kubeconfig, and all that a
//! decision hangs on.

use std::path::PathBuf;

use outrigger_engine::ports::ClusterError;
use outrigger_kubernetes::client::KubernetesCluster;
use outrigger_kubernetes::{Dump, DumpReader};

use crate::args::Kubeconfig;
use crate::error::{CliError, chain};

/// Waits for what a command does.
pub(crate) fn wait_for<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(CliError::Runtime)?.block_on(work)
}

/// The cluster of a kubeconfig.
pub(crate) async fn connect(kubeconfig: &Kubeconfig) -> Result<KubernetesCluster, CliError> {
    let files = files(kubeconfig)?;
    Ok(KubernetesCluster::from_kubeconfig(&files, kubeconfig.context.as_deref()).await?)
}

/// What the cluster of a kubeconfig has, beside what was read before; and what is missing in it,
/// for people.
pub(crate) fn dump(kubeconfig: &Kubeconfig, reader: DumpReader) -> Result<(Dump, Vec<String>), CliError> {
    let (dump, refused) = wait_for(async { Ok(connect(kubeconfig).await?.dump(reader).await?) })?;
    let lack = |error: &ClusterError| format!("{}; it is decided without them", chain(error));
    Ok((dump, refused.iter().map(lack).collect()))
}

/// Where kubectl would find it.
fn files(kubeconfig: &Kubeconfig) -> Result<Vec<PathBuf>, CliError> {
    if let Some(file) = &kubeconfig.file {
        return Ok(vec![file.clone()]);
    }
    let variable = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let mut files: Vec<PathBuf> =
        std::env::split_paths(&variable).filter(|path| !path.as_os_str().is_empty()).collect();
    if files.is_empty() {
        files.push(PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".kube/config"));
    }
    let there: Vec<PathBuf> = files.iter().filter(|file| file.exists()).cloned().collect();
    if there.is_empty() {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        return Err(CliError::Missing {
            what: "the kubeconfig".into(),
            actual: format!("no file {}", names.join(", ")),
            allowed:
                "a file that kops export kubeconfig writes, in KUBECONFIG or with --kubeconfig; what reads a \
                      cluster also takes files, with -f"
                    .into(),
        });
    }
    Ok(there)
}
