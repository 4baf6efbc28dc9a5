//! `outrigger uninstall`: run by a person, again and again until nothing of Outrigger's is left in
//! the cluster.

use std::sync::Arc;
use std::time::Duration;

use outrigger_engine::ports::{Cluster, ClusterError};
use outrigger_engine::{chain, uninstall};
use tokio::time::sleep;

use super::{Kill, begin, end};
use crate::door::Door;
use crate::scenario::{Function, Uninstall};
use crate::timeline::{Kind, count};
use crate::world::World;

/// By then every run that was under way when the functions were removed is over.
const LAST_RUNS: Duration = Duration::from_mins(1);
/// How long a person takes to run the command again.
const AGAIN: Duration = Duration::from_secs(30);

/// Waits until Outrigger is to be taken out, and does it.
pub(crate) async fn person(world: &Arc<World>, kills: &[Kill]) {
    let mut changes = world.changes();
    let how = loop {
        if let Some(how) = world.look(|state, _| state.uninstalls) {
            break how;
        }
        if changes.changed().await.is_err() {
            return;
        }
    };
    if how == Uninstall::Release {
        sleep(LAST_RUNS).await;
    }
    while !run(world, how, kills).await {
        sleep(AGAIN).await;
    }
    std::future::pending::<()>().await;
}

/// One run of the command; says whether nothing is left.
async fn run(world: &Arc<World>, how: Uninstall, kills: &[Kill]) -> bool {
    let door = Door::new(Arc::clone(world), begin(world, Function::Uninstall, kills));
    let (died, remaining) = tokio::select! {
        biased;
        () = door.died() => (Some(door.calls()), None),
        remaining = command(&door, how) => (None, Some(remaining)),
    };
    let line = remaining.as_ref().map(|remaining| match remaining {
        Ok(remaining) => (Kind::Function, format!("uninstall: {} left", count(*remaining, "object"))),
        Err(error) => (Kind::Trouble, chain(error)),
    });
    end(world, door, died, line);
    matches!(remaining, Some(Ok(0)))
}

/// How many objects carry something of Outrigger's afterwards.
async fn command(cluster: &dyn Cluster, how: Uninstall) -> Result<usize, ClusterError> {
    let survey = uninstall::survey(cluster).await?;
    match how {
        Uninstall::Release => uninstall::release(cluster, &survey).await?,
        Uninstall::Drain => uninstall::drain(cluster, &survey).await?,
    }
    let remaining = uninstall::survey(cluster).await?;
    Ok(remaining.nodes.len() + remaining.node_claims.len())
}
