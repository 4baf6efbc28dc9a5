//! The API server, its clock, the rights in it, and what people wrote there.

use jiff::SignedDuration;
use outrigger_engine::chain;
use outrigger_engine::ports::{Cluster, ClusterError, Configuration, Scope};
use outrigger_kubernetes::KubernetesCluster;
use outrigger_kubernetes::rights::Right;
use outrigger_model::taint::first_untolerated;
use outrigger_model::{DaemonSet, Finding, Taint, TaintEffect, labels};

/// What findings about reaching it are called.
pub(super) const SUBJECT: &str = "API server";
/// The namespace of network daemons.
const SYSTEM_NAMESPACE: &str = "kube-system";
/// By how much clocks may differ; then nothing is ended for its age.
const LARGEST_DIFFERENCE: SignedDuration = SignedDuration::from_mins(1);
/// How many MB a function needs for clusters of up to so many nodes, by measurement
/// (docs/deploying.md).
const MEMORY: [(usize, u64); 2] = [(1_000, 256), (5_000, 512)];
/// How many objects that are refused are named.
const MAX_NAMED: usize = 10;

/// Why the API server could not be reached, and what to do about it.
pub(super) fn unreachable(error: &anyhow::Error, function: &str) -> Finding {
    let detail = chain(error.as_ref());
    let remedy = match error.downcast_ref::<ClusterError>() {
        Some(ClusterError::Refused { status: 401, .. }) => format!(
            "map the function's role to the group outrigger:{function}, or renew its token with `outrigger token`"
        ),
        Some(ClusterError::Refused { status: 403, .. }) => format!(
            "`kubectl apply -f infra/kubernetes`, and map the role to the group outrigger:{function} alone"
        ),
        _ => remedy_of(&detail).to_owned(),
    };
    Finding::bad(SUBJECT, detail, remedy)
}

/// What the words of a connection that failed come to. The libraries below have no codes for these.
fn remedy_of(detail: &str) -> &'static str {
    let table: [(&[&str], &str); 5] = [
        (
            &["no token for it could be had"],
            "the function needs the parameter that ApiTokenParameter names, or else credentials of its role",
        ),
        (
            &["dns error", "failed to lookup"],
            "the host of ApiServer has no address where the function is: a private name wants SubnetIds in its VPC",
        ),
        (
            &[
                "certificate",
                "CaUsedAsEndEntity",
                "UnknownIssuer",
                "NotValidForName",
                "unexpected EOF during handshake",
            ],
            "ApiServerCa must be the kubeconfig's, and ApiServerName the name in the certificate: \
             api.internal.CLUSTER behind a load balancer",
        ),
        (&["Connection refused"], "nothing listens there: take ApiServer from the kubeconfig"),
        (
            &["no answer within", "timed out", "deadline has elapsed"],
            "the network drops it: the API server's security group must admit the functions' one, and a private \
             API server wants SubnetIds and SecurityGroupIds",
        ),
    ];
    let speaks = |words: &[&str]| words.iter().any(|word| detail.contains(word));
    let row = table.into_iter().find(|(words, _)| speaks(words));
    row.map_or(
        "take ApiServer, ApiServerCa and ApiServerName from the kubeconfig: `outrigger setup`",
        |row| row.1,
    )
}

/// Whether the clocks agree.
pub(super) fn clock(difference: Option<SignedDuration>) -> Finding {
    const SUBJECT: &str = "clock";
    let seconds = difference.map_or(0, |difference| difference.as_secs());
    if seconds.abs() <= LARGEST_DIFFERENCE.as_secs() {
        return Finding::good(SUBJECT, "the API server's clock and AWS' agree");
    }
    let detail = format!("the API server's clock is {seconds} s ahead of AWS': no node is ended for its age");
    Finding::bad(SUBJECT, detail, "set the clock of the control plane by NTP")
}

/// Whether the function may do what it has to.
pub(super) async fn rights(cluster: &KubernetesCluster, function: &str) -> Finding {
    const SUBJECT: &str = "rights in the cluster";
    let apply = "`kubectl apply -f infra/kubernetes`";
    match cluster.missing_rights(function).await {
        Ok(missing) if missing.is_empty() => {
            Finding::good(SUBJECT, format!("all that outrigger:{function} has in rbac.yaml"))
        }
        Ok(missing) if missing.iter().all(Right::is_optional) => Finding::remarkable(
            SUBJECT,
            "it may not bind pods, so kube-scheduler alone places them",
            format!("{apply}, unless you left outrigger:place out"),
        ),
        Ok(missing) => {
            let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
            let detail = format!("it may not {}", missing.join(", "));
            let remedy = format!("{apply}, and map the role to the group outrigger:{function} alone");
            Finding::bad(SUBJECT, detail, remedy)
        }
        Err(error) => Finding::remarkable(SUBJECT, chain(&error), "ask again"),
    }
}

/// What people wrote, and what is wrong with it.
pub(super) async fn objects(cluster: &KubernetesCluster) -> (Vec<Finding>, Option<Configuration>) {
    const SUBJECT: &str = "objects";
    let configuration = match cluster.configuration().await {
        Ok(configuration) => configuration,
        Err(error) => {
            let remedy = "`kubectl apply -f infra/kubernetes/crds -f infra/kubernetes`";
            return (vec![Finding::bad(SUBJECT, chain(&error), remedy)], None);
        }
    };
    let refused = configuration.invalid.iter().take(MAX_NAMED).map(|invalid| {
        let detail = format!("{}: {}", invalid.object, invalid.complaint());
        Finding::bad(SUBJECT, detail, "mend it; the others are used meanwhile")
    });
    let mut findings: Vec<Finding> = refused.collect();
    let (pools, more) =
        (configuration.node_pools.len(), configuration.invalid.len().saturating_sub(MAX_NAMED));
    if more > 0 {
        findings.push(Finding::bad(SUBJECT, format!("{more} more are refused"), "`kubectl get nodepools`"));
    } else if findings.is_empty() {
        findings.push(Finding::good(SUBJECT, format!("{pools} NodePools, and none is refused")));
    }
    (findings, Some(configuration))
}

/// Whether the function has memory for the cluster, and whether daemons may come to new nodes.
pub(super) async fn room(cluster: &KubernetesCluster) -> Vec<Finding> {
    let state = match cluster.list(Scope::Everything).await {
        Ok((state, _)) => state,
        Err(error) => {
            let remedy =
                "`kubectl apply -f infra/kubernetes`, or a larger MemorySize where it takes too long";
            return vec![Finding::bad("nodes and pods", chain(&error), remedy)];
        }
    };
    let megabytes = std::env::var("AWS_LAMBDA_FUNCTION_MEMORY_SIZE").ok().and_then(|size| size.parse().ok());
    vec![memory(state.nodes.len(), state.pods.len(), megabytes), daemons(&state.daemon_sets)]
}

fn memory(nodes: usize, pods: usize, megabytes: Option<u64>) -> Finding {
    const SUBJECT: &str = "memory";
    let seen = format!("{nodes} nodes and {pods} pods");
    let Some(megabytes) = megabytes else {
        return Finding::good(SUBJECT, format!("{seen}; Lambda does not say how much it has"));
    };
    let enough = MEMORY.iter().find(|(most, _)| nodes <= *most).map_or(1024, |(_, enough)| *enough);
    let detail = format!("{megabytes} MB for {seen}");
    if megabytes >= enough {
        return Finding::good(SUBJECT, detail);
    }
    Finding::remarkable(SUBJECT, detail, format!("set MemorySize to {enough}"))
}

/// Network daemons that new nodes keep out stay out until the node is opened, which is late.
fn daemons(daemon_sets: &[DaemonSet]) -> Finding {
    const SUBJECT: &str = "daemons";
    let unregistered = Taint::new(labels::UNREGISTERED_TAINT, "", TaintEffect::NoExecute);
    let taints = [unregistered, Taint::placing()];
    let kept_out = daemon_sets
        .iter()
        .filter(|daemon| daemon.id.namespace == SYSTEM_NAMESPACE)
        .filter(|daemon| first_untolerated(&taints, &daemon.spec.tolerations).is_some());
    let kept_out: Vec<&str> = kept_out.map(|daemon| daemon.id.name.as_str()).collect();
    if kept_out.is_empty() {
        return Finding::good(SUBJECT, format!("those of {SYSTEM_NAMESPACE} tolerate what new nodes bear"));
    }
    let detail = format!("{} of {SYSTEM_NAMESPACE} wait until a new node is opened", kept_out.join(", "));
    let remedy =
        format!("where a node needs one to be Ready, let it tolerate {} and {}", taints[0], taints[1]);
    Finding::remarkable(SUBJECT, detail, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use outrigger_model::Health;

    #[test]
    fn each_way_to_miss_the_server_has_one_thing_to_do() {
        let refused = |status| ClusterError::Refused {
            attempted: "read the namespace kube-system".into(),
            status,
            message: "no".into(),
        };
        let broken = |cause: &str| ClusterError::Unreachable {
            server: "https://api".into(),
            attempted: "read the namespace kube-system".into(),
            source: cause.into(),
        };
        let table = [
            (refused(401), "renew its token"),
            (refused(403), "kubectl apply -f infra/kubernetes"),
            (broken("no token for it could be had: expired"), "ApiTokenParameter"),
            (broken("dns error: failed to lookup address information"), "no address where the function is"),
            (broken("invalid peer certificate: UnknownIssuer"), "ApiServerCa"),
            (broken("tcp connect error: Connection refused (os error 111)"), "nothing listens"),
            (broken("no answer within 15 s"), "security group"),
            (broken("the sky fell"), "outrigger setup"),
        ];
        for (error, remedy) in table {
            let finding = unreachable(&anyhow::Error::from(error), "disrupt");
            assert_eq!(finding.health, Health::Bad, "{finding:?}");
            assert!(finding.remedy.as_deref().is_some_and(|text| text.contains(remedy)), "{finding:?}");
        }
    }

    #[test]
    fn memory_is_judged_by_nodes() {
        let table = [
            (1_000, Some(256), None),
            (1_001, Some(256), Some("set MemorySize to 512")),
            (5_000, Some(512), None),
            (5_001, Some(512), Some("set MemorySize to 1024")),
            (9, None, None),
        ];
        for (nodes, megabytes, remedy) in table {
            assert_eq!(memory(nodes, 1, megabytes).remedy.as_deref(), remedy, "{nodes} {megabytes:?}");
        }
    }

    #[test]
    fn a_clock_may_be_a_minute_off() {
        let health = |seconds| clock(Some(SignedDuration::from_secs(seconds))).health;
        assert_eq!(
            [health(60), health(-60), health(61), health(-61)],
            [Health::Good, Health::Good, Health::Bad, Health::Bad]
        );
        assert_eq!(clock(None).health, Health::Good);
    }
}
