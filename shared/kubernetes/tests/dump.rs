//! Files as kubectl writes them, and what is said about the broken ones.

use std::error::Error as _;
use std::fmt::Write as _;

use outrigger_kubernetes::Dump;

const PODS: &str = r#"
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: { namespace: shop, name: web-1, uid: u-1 }
  spec:
    containers:
    - name: main
      resources: { requests: { cpu: 1, memory: 1Gi } }
- apiVersion: apps/v1
  kind: Deployment
  metadata: { namespace: shop, name: web }
---
# a comment, and an empty document
---
apiVersion: v1
kind: Node
metadata: { name: i-1 }
status: { capacity: { cpu: "4" } }
---
apiVersion: apps/v1
kind: DaemonSet
metadata: { namespace: kube-system, name: agent }
spec: { template: { spec: { containers: [] } } }
"#;

const TYPED_LIST: &str = r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[
    {"metadata":{"namespace":"shop","name":"b","uid":"u-3"},"spec":{"containers":[]}},
    {"metadata":{"namespace":"shop","name":"a","uid":"u-2"},"spec":{"containers":[]}}]}
    [{"kind":"Service","apiVersion":"v1"},{"kind":"Node","apiVersion":"longhorn.io/v1beta2"}]"#;

const POOL: &str = r"
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: { name: general }
spec:
  template:
    spec:
      requirements: []
      nodeClassRef: { group: kops.k8s.io, kind: InstanceGroup, name: nodes }
";

/// Everything that a dump holds, a line each.
fn told(dump: &Dump) -> String {
    let mut lines = Vec::new();
    lines.extend(dump.pods.iter().map(|pod| format!("Pod {} takes {}", pod.id, pod.spec.requests)));
    lines.extend(dump.nodes.iter().map(|node| format!("Node {} has {}", node.name, node.allocatable)));
    lines.extend(dump.daemon_sets.iter().map(|set| format!("DaemonSet {}", set.id)));
    lines.extend(dump.node_pools.iter().map(|pool| format!("NodePool {}", pool.name)));
    lines.extend(dump.other.iter().map(|(kind, count)| format!("{count} of {kind}")));
    lines.extend(dump.invalid.iter().map(ToString::to_string));
    lines.join("\n")
}

#[test]
fn documents_lists_and_json_mix() {
    let dump = Dump::parse(&[("a.yaml", PODS), ("b.json", TYPED_LIST), ("c.yaml", POOL)]).unwrap();
    insta::assert_snapshot!(told(&dump), @r#"
    Pod shop/a takes pods 1
    Pod shop/b takes pods 1
    Pod shop/web-1 takes cpu 1, memory 1Gi, pods 1
    Node i-1 has cpu 4
    DaemonSet kube-system/agent
    NodePool general
    1 of Deployment.apps
    1 of Node.longhorn.io
    1 of Service
    "#);
}

#[test]
fn broken_objects_are_named_and_the_rest_goes_on() {
    let text = r"
apiVersion: v1
kind: Pod
metadata: { namespace: shop, name: good }
spec: { containers: [] }
---
apiVersion: v1
kind: Pod
metadata: { namespace: shop, name: quantity }
spec: { containers: [{ name: a, resources: { requests: { memory: 1gb } } }] }
---
apiVersion: v1
kind: Pod
metadata: { namespace: shop, name: type }
spec: { containers: [{ name: a }], priority: high }
---
apiVersion: v1
kind: Pod
metadata: { namespace: shop, name: good }
spec: { containers: [] }
---
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: { name: old }
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: { name: bad }
spec:
  template:
    spec:
      requirements: [{ key: a, operator: Inn }]
      nodeClassRef: { group: kops.k8s.io, kind: InstanceGroup, name: nodes }
---
just a text
---
metadata: { name: kindless }
";
    insta::assert_snapshot!(told(&Dump::parse(&[("file.yaml", text)]).unwrap()), @r#"
    Pod shop/good takes pods 1
    file.yaml: Pod/shop/quantity: spec.containers[0].resources.requests.memory: found "1gb"; allowed: a quantity such as 500m, 2 or 1.5Gi, not below nothing
    file.yaml: Pod/shop/type: spec.priority: found "high"; allowed: invalid type: string "high", expected i32
    file.yaml: Pod/shop/good: metadata: found shop/good a second time; allowed: each object once; the first is used
    file.yaml: NodePool/old: apiVersion: found "karpenter.sh/v1beta1"; allowed: karpenter.sh/v1
    file.yaml: NodePool/bad: spec.template.spec.requirements[0].operator: found "Inn"; allowed: unknown variant `Inn`, expected one of `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`, `Gte`, `Lte`
    file.yaml: object 7: kind: found "just a text"; allowed: a Kubernetes object or List
    file.yaml: object 8: kind: found nothing; allowed: a kind, as Pod
    "#);
}

#[test]
fn anchors_are_followed_as_far_as_is_sane() {
    let shared = "
apiVersion: v1
kind: List
items:
- &pod
  apiVersion: v1
  kind: Pod
  metadata: { namespace: shop, name: a, uid: u-1 }
  spec: { containers: [] }
- <<: *pod
  metadata: { namespace: shop, name: b, uid: u-2 }
";
    insta::assert_snapshot!(told(&Dump::parse(&[("file.yaml", shared)]).unwrap()), @r#"
    Pod shop/a takes pods 1
    Pod shop/b takes pods 1
    "#);
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let below = format!("*a{}", level - 1);
        writeln!(bomb, "a{level}: &a{level} [{}]", [below.as_str(); 10].join(", ")).unwrap();
    }
    let error = Dump::parse(&[("bomb.yaml", &bomb)]).unwrap_err();
    assert_eq!(error.to_string(), "bomb.yaml: this is not YAML as kubectl writes it");
}

#[test]
fn files_that_are_nothing_say_where() {
    let fails = |text: &str| {
        let error = Dump::parse(&[("f", text)]).unwrap_err();
        format!("{error}: {}", error.source().unwrap())
    };
    insta::assert_snapshot!(fails(r#"{"kind": "Pod", "#), @"f: this is not JSON as kubectl writes it: EOF while parsing an object at line 1 column 16");
    insta::assert_snapshot!(fails("kind: Pod\n  metadata: x\n"), @r#"
    f: this is not YAML as kubectl writes it: error: line 2 column 11: mapping values are not allowed in this context
     --> <input>:2:11
      |
    1 | kind: Pod
    2 |   metadata: x
      |           ^ mapping values are not allowed in this context
    "#);
    let missing = Dump::read(&["/no/such/file"]).unwrap_err();
    assert_eq!(missing.to_string(), "/no/such/file: the file cannot be read");
    assert_eq!(told(&Dump::parse(&[("empty.yaml", "")]).unwrap()), "");
}
