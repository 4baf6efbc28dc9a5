//! What runs of functions have looked at, and when: what they do next is judged by what they could
//! know.

use std::collections::BTreeMap;
use std::time::Duration;

use outrigger_engine::ports::Scope;
use outrigger_model::NodePool;

use crate::cluster::Objects;
use crate::scenario::Function;
use crate::time::Moment;

/// A list of nodes and pods that a function has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// When.
    pub at: Duration,
    /// Which function.
    pub function: Function,
    /// How much of the cluster.
    pub scope: Scope,
}

/// What the runs that are under way have looked at, by who they are.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    runs: BTreeMap<String, Look>,
    /// All lists, in order of time.
    pub lists: Vec<Listed>,
}

/// What a run has looked at since it last read the ledger.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// When it read the ledger.
    pub ledger: Duration,
    /// When it last listed nodes, alone or with all pods.
    pub nodes: Option<Duration>,
    /// When it last listed the pods of a node, by the node's name.
    pub pods: BTreeMap<String, Duration>,
    /// When it last listed NodeClaim objects, whenever it has read the ledger.
    pub mirrors: Option<Duration>,
    /// How many initialised nodes each pool had when it listed them with all pods.
    pub pool_nodes: BTreeMap<String, usize>,
}

impl Looks {
    /// A run reads the ledger, and so begins anew.
    pub(crate) fn at_ledger(&mut self, owner: &str, moment: Moment) {
        let mirrors = self.runs.get(owner).and_then(|look| look.mirrors);
        let look = Look { ledger: moment.elapsed, mirrors, ..Look::default() };
        self.runs.insert(owner.to_owned(), look);
    }

    /// It lists NodeClaim objects.
    pub(crate) fn at_mirrors(&mut self, owner: &str, moment: Moment) {
        self.runs.entry(owner.to_owned()).or_default().mirrors = Some(moment.elapsed);
    }

    /// It lists nodes.
    pub(crate) fn at_nodes(&mut self, owner: &str, moment: Moment) {
        if let Some(look) = self.runs.get_mut(owner) {
            look.nodes = Some(moment.elapsed);
        }
    }

    /// It lists nodes with all pods.
    pub(crate) fn at_everything(&mut self, owner: &str, cluster: &Objects, moment: Moment) {
        self.at_nodes(owner, moment);
        let Some(look) = self.runs.get_mut(owner) else { return };
        let initialized = cluster.nodes().values().filter(|node| node.is_initialized());
        for pool in initialized.filter_map(|node| node.node_pool()) {
            *look.pool_nodes.entry(pool.to_owned()).or_default() += 1;
        }
    }

    /// It lists the pods of a node.
    pub(crate) fn at_pods(&mut self, owner: &str, node: &str, moment: Moment) {
        if let Some(look) = self.runs.get_mut(owner) {
            look.pods.insert(node.to_owned(), moment.elapsed);
        }
    }

    /// What a run has looked at; `None` where it has not read the ledger.
    pub(crate) fn by(&self, owner: &str) -> Option<&Look> {
        self.runs.get(owner)
    }

    /// A run is over.
    pub(crate) fn forget(&mut self, owner: &str) {
        self.runs.remove(owner);
    }
}

impl Look {
    /// How many initialised nodes a pool had.
    pub(crate) fn nodes_of(&self, pool: &NodePool) -> usize {
        self.pool_nodes.get(&pool.name).copied().unwrap_or_default()
    }
}
