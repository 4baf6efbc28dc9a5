//! A static pod, from the manifest that a kubelet reads.

use k8s_openapi::api::core::v1 as wire;
use outrigger_model::{Invalid, StaticPod};
use serde_json::Value;

use super::Interner;
use super::pod::pod;
use crate::wire::read_value;

/// The static pod of a manifest, which is YAML or JSON. `file` names it in complaints.
pub fn static_pod(file: &str, manifest: &str) -> Result<StaticPod, Invalid> {
    let options = serde_saphyr::options! { strict_booleans: true };
    let value: Value = serde_saphyr::from_str_with_options(manifest, options)
        .map_err(|error| Invalid::new(file, "the file", "text that is not one YAML document", error))?;
    if value["kind"] != "Pod" {
        return Err(Invalid::new(file, "kind", &value["kind"], "\"Pod\""));
    }
    let mut object: wire::Pod = read_value("Pod", &value)?;
    default_requests(&mut object);
    let pod = pod(object, &mut Interner::default())?;
    Ok(StaticPod { id: pod.id, spec: pod.spec })
}

/// Whoever limits a resource and asks for none of it asks for all of it. The API server says so of
/// its objects, and the kubelet of its manifests.
fn default_requests(pod: &mut wire::Pod) {
    let Some(spec) = &mut pod.spec else { return };
    let containers = spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten());
    for resources in containers.filter_map(|container| container.resources.as_mut()) {
        let Some(limits) = resources.limits.clone() else { continue };
        let requests = resources.requests.get_or_insert_default();
        for (name, limit) in limits {
            requests.entry(name).or_insert(limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use outrigger_model::resources::{CPU, MEMORY, PODS};

    use super::*;

    const AGENT: &str = "
apiVersion: v1
kind: Pod
metadata: {name: agent, namespace: kube-system}
spec:
  hostNetwork: true
  containers:
  - name: agent
    image: agent
    ports: [{containerPort: 9100}]
    resources: {requests: {cpu: 50m}, limits: {cpu: 1, memory: 64Mi}}
";

    #[test]
    fn a_manifest_asks_for_what_it_limits() {
        let StaticPod { id, spec } = static_pod("agent.yaml", AGENT).unwrap();
        assert_eq!(id.to_string(), "kube-system/agent");
        let asked = [CPU, MEMORY, PODS].map(|name| spec.requests.get(name).to_string());
        assert_eq!(asked, ["50m", "64Mi", "1"]);
        assert_eq!(spec.host_ports.iter().map(|port| port.port).collect::<Vec<_>>(), [9100]);
    }

    #[test]
    fn what_is_no_pod_is_refused_by_the_name_of_its_file() {
        let list = static_pod("agent.yaml", "kind: List\nitems: []\n").unwrap_err();
        assert_eq!(list.to_string(), "agent.yaml: kind: found \"List\"; allowed: \"Pod\"");
        let text = static_pod("agent.yaml", "a: b: c").unwrap_err();
        assert!(text.to_string().starts_with("agent.yaml: the file: found text"), "{text}");
    }
}
