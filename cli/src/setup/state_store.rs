//! The cluster from kOps' state store, and the account from AWS, where no file says them.

use outrigger_aws::{Aws, S3Location};
use outrigger_kubernetes::{Dump, DumpReader};

use crate::args;
use crate::cluster::wait_for;
use crate::error::CliError;
use crate::output::spinner;

/// What kOps has of the cluster, and the command with the account in which it was found.
pub(super) fn fetch(command: &args::Setup) -> Result<(Dump, args::Setup), CliError> {
    let state = command.state.clone().unwrap_or_default();
    let store: S3Location = state.parse()?;
    let waiting = spinner("reading the state store");
    let fetched = wait_for(async {
        let aws = Aws::load(command.region.clone(), Aws::CALL_LIMIT).await;
        let objects = aws.kops_objects(&store, &command.cluster).await?;
        Ok((objects, aws.account().await))
    });
    waiting.finish_and_clear();
    let (objects, account) = fetched?;
    if objects.is_empty() {
        return Err(CliError::Missing {
            what: format!("--state {state}"),
            actual: format!("no cluster {}", command.cluster),
            allowed: format!(
                "the state store of the cluster; `kops get clusters --state {state}` lists its own"
            ),
        });
    }
    let mut reader = DumpReader::default();
    for (address, text) in &objects {
        reader.add(address, text.as_bytes())?;
    }
    let account = command.account.clone().or(account);
    Ok((reader.finish(), args::Setup { account, ..command.clone() }))
}
