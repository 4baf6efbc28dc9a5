//! kube-proxy as the API server shows it: a static pod, for which the kubelet makes a mirror pod.
//! Nobody schedules it.

use serde::Deserialize;
use serde_json::{Value, json};

/// kube-proxy's settings in nodeupconfig.yaml.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KubeProxy {
    cpu_request: String,
    image: String,
}

/// kube-proxy as nodeup writes it for a node, with what the kubelet adds to a static pod.
pub(crate) fn kube_proxy(settings: &KubeProxy, node: &Value) -> Value {
    let (name, uid) = (&node["metadata"]["name"], &node["metadata"]["uid"]);
    let node_name = name.as_str().unwrap_or_default();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("kube-proxy-{node_name}"),
            "namespace": "kube-system",
            "labels": {"k8s-app": "kube-proxy", "tier": "node", "kubernetes.io/managed-by": "nodeup"},
            "annotations": {
                "kubernetes.io/config.hash": "0123456789abcdef0123456789abcdef",
                "kubernetes.io/config.mirror": "0123456789abcdef0123456789abcdef",
                "kubernetes.io/config.seen": "2026-11-21T10:00:00.000000000Z",
                "kubernetes.io/config.source": "file",
            },
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid, "controller": true},
            ],
        },
        "spec": {
            "nodeName": name,
            "hostNetwork": true,
            "priorityClassName": "system-node-critical",
            "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
            "containers": [{
                "name": "kube-proxy",
                "image": settings.image,
                "resources": {"requests": {"cpu": settings.cpu_request}},
            }],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kube_proxy_is_bound_to_its_node_and_asks_for_what_kops_says() {
        let node = json!({"metadata": {"name": "i-1", "uid": "u-1"}});
        let written = "clusterCIDR: 100.96.0.0/11\ncpuRequest: 150m\nimage: kube-proxy:v1\n";
        let pod = kube_proxy(&serde_saphyr::from_str(written).unwrap(), &node);
        assert_eq!(pod["metadata"]["name"], "kube-proxy-i-1");
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], "u-1");
        assert_eq!(pod["spec"]["nodeName"], "i-1");
        assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"], "150m");
    }
}
