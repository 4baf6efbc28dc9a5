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
fn lines_of(dump: &Dump) -> String {
    let mut lines = Vec::new();
    lines.extend(dump.pods.iter().map(|pod| format!("Pod {} takes {}", pod.id, pod.spec.requests)));
    lines.extend(dump.nodes.iter().map(|node| format!("Node {} has {}", node.name, node.allocatable)));
    lines.extend(dump.daemon_sets.iter().map(|set| format!("DaemonSet {}", set.id)));
    lines.extend(dump.node_pools.iter().map(|pool| format!("NodePool {}", pool.name)));
    lines.extend(dump.nodes.iter().flat_map(|node| {
        node.volume_limits
            .iter()
            .map(|(driver, limit)| format!("Node {} attaches {limit} of {driver}", node.name))
    }));
    lines.extend(dump.volume_claims.iter().map(|claim| {
        let places: Vec<_> = claim.alternatives.iter().map(ToString::to_string).collect();
        let places = places.join(" or ");
        let attached =
            || format!("PersistentVolumeClaim {}: {} of {}: {places}", claim.id, claim.handle, claim.driver);
        claim.problem.clone().unwrap_or_else(attached)
    }));
    lines.extend(dump.namespaces.iter().map(|(name, labels)| format!("Namespace {name} {labels:?}")));
    lines.extend(
        dump.overlays.iter().map(|overlay| format!("NodeOverlay {} {:?}", overlay.name, overlay.price)),
    );
    lines.extend(dump.buffers.iter().map(|buffer| {
        let requests = &buffer.spec.requests;
        format!(
            "CapacityBuffer {}: {} of {requests}, priority {}",
            buffer.id, buffer.count, buffer.spec.priority
        )
    }));
    lines.extend(dump.other.iter().map(|(kind, count)| format!("{count} of {kind}")));
    lines.extend(dump.invalid.iter().map(ToString::to_string));
    let in_part = dump.pods.iter().filter_map(|pod| pod.degraded.as_deref()).chain(&dump.unreadable);
    lines.extend(in_part.map(|problem| format!("not read whole: {problem}")));
    lines.join("\n")
}

#[test]
fn documents_lists_and_json_mix() {
    let dump = Dump::parse(&[("a.yaml", PODS), ("b.json", TYPED_LIST), ("c.yaml", POOL)]).unwrap();
    insta::assert_snapshot!(lines_of(&dump), @r#"
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

/// Whatever pods refer to, in an order in which nothing is known of what refers to it.
const RELATED: &str = r#"
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: { namespace: shop, name: spare }
spec: { scalableRef: { apiGroup: apps, kind: Deployment, name: web }, percentage: 30 }
---
apiVersion: autoscaling.x-k8s.io/v1alpha1
kind: CapacityBuffer
metadata: { namespace: shop, name: lost }
spec: { podTemplateRef: { name: gone }, replicas: 1 }
---
apiVersion: v1
kind: Pod
metadata: { namespace: shop, name: db-0, uid: u-1 }
spec:
  containers: []
  volumes:
  - { name: data, persistentVolumeClaim: { claimName: data } }
  - { name: scratch, ephemeral: { volumeClaimTemplate: { spec: {} } } }
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - { topologyKey: kubernetes.io/hostname, namespaceSelector: { matchLabels: { tier: gold } }, labelSelector: {} }
status: { conditions: [{ type: PodScheduled, status: "False", reason: Unschedulable }] }
---
apiVersion: v1
kind: Pod
metadata: { namespace: other, name: db-1, uid: u-2 }
spec: { nodeName: i-1, containers: [], volumes: [{ name: d, persistentVolumeClaim: { claimName: data } }] }
---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: { name: i-1 }
spec: { drivers: [{ name: ebs.csi.aws.com, nodeID: i-1, allocatable: { count: 25 } }] }
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: { namespace: shop, name: data, annotations: { pv.kubernetes.io/bind-completed: "yes" } }
spec: { volumeName: pv-1 }
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: { namespace: other, name: data }
spec: { storageClassName: gp3 }
---
apiVersion: v1
kind: PersistentVolume
metadata: { name: pv-1 }
spec:
  csi: { driver: ebs.csi.aws.com, volumeHandle: vol-1 }
  nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [{ key: topology.kubernetes.io/zone, operator: In, values: [a] }] }] } }
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: { name: gp3 }
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: Namespace
metadata: { name: shop, labels: { tier: gold } }
---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: { name: discount }
spec: { requirements: [], priceAdjustment: "-10%" }
---
apiVersion: apps/v1
kind: Deployment
metadata: { namespace: shop, name: web }
spec:
  replicas: 4
  selector: {}
  template:
    metadata: { labels: { app: web } }
    spec:
      priority: 1000
      containers: [{ name: a, resources: { requests: { cpu: 500m } } }]
      volumes: [{ name: d, persistentVolumeClaim: { claimName: data } }]
---
apiVersion: v1
kind: Node
metadata: { name: i-1 }
"#;

#[test]
fn what_pods_refer_to_is_put_together() {
    insta::assert_snapshot!(lines_of(&Dump::parse(&[("r.yaml", RELATED)]).unwrap()), @r#"
    Pod other/db-1 takes pods 1
    Pod shop/db-0 takes pods 1
    Node i-1 has 
    Node i-1 attaches 25 of ebs.csi.aws.com
    PersistentVolumeClaim other/data: other/data of ebs.csi.aws.com: 
    PersistentVolumeClaim shop/data: vol-1 of ebs.csi.aws.com: topology.kubernetes.io/zone In [a]
    PersistentVolumeClaim shop/db-0-scratch: not found
    Namespace other {"kubernetes.io/metadata.name": "other"}
    Namespace shop {"kubernetes.io/metadata.name": "shop", "tier": "gold"}
    NodeOverlay discount Some(Scale(-100000))
    CapacityBuffer shop/spare: 2 of cpu 500m, pods 1, priority -2147483648
    1 of CSINode.storage.k8s.io
    1 of Deployment.apps
    1 of Namespace
    1 of PersistentVolume
    2 of PersistentVolumeClaim
    1 of StorageClass.storage.k8s.io
    r.yaml: CapacityBuffer/shop/lost: spec.podTemplateRef: found PodTemplate shop/gone, which is not there; allowed: one that exists in the buffer's namespace
    "#);
}

#[test]
fn volumes_that_no_waiting_pod_mounts_are_known_too() {
    let bound = RELATED.replace("Unschedulable", "Scheduled");
    let claims = |text: &str| Dump::parse(&[("r.yaml", text)]).unwrap().volume_claims.len();
    assert_eq!(claims(&bound), 3);
    // Where the files hold no claims at all, nothing is said of pods that nobody plans for.
    let without = |text: &str| text.replace("kind: PersistentVolumeClaim", "kind: Ignored");
    assert_eq!((claims(&without(&bound)), claims(&without(RELATED))), (0, 3));
}

#[test]
fn a_claim_stays_on_the_node_that_was_selected_while_that_is_there() {
    let selected = |node: &str| {
        RELATED.replace(
            "metadata: { namespace: other, name: data }",
            &format!("metadata: {{ namespace: other, name: data, annotations: {{ volume.kubernetes.io/selected-node: {node} }} }}"),
        )
    };
    let places = |text: &str| {
        let dump = Dump::parse(&[("r.yaml", text)]).unwrap();
        let claim = dump.volume_claims.into_iter().find(|claim| claim.id.namespace == "other").unwrap();
        claim.alternatives.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(places(&selected("i-1")), ["kubernetes.io/hostname In [i-1]"]);
    assert_eq!(places(&selected("i-9")), Vec::<String>::new());
}

#[test]
fn volumes_and_budgets_of_pods_whose_node_goes_are_known() {
    let owner =
        "ownerReferences: [{ apiVersion: apps/v1, kind: StatefulSet, name: db, uid: u, controller: true }]";
    let going = RELATED
        .replace("Unschedulable", "Scheduled")
        .replace("uid: u-2", &format!("uid: u-2, {owner}"))
        .replace("kind: Node\nmetadata: { name: i-1 }", GOING);
    let dump = Dump::parse(&[("r.yaml", &going)]).unwrap();
    assert_eq!(dump.volume_claims.len(), 3);
    let budgets = dump.disruption_budgets.iter();
    let budgets: Vec<_> = budgets.map(|one| format!("{} {}", one.id, one.is_fully_blocking)).collect();
    assert_eq!(budgets, ["other/none true"]);
}

/// A node of ours that is being drained, and a budget.
const GOING: &str = "kind: Node
metadata: { name: i-1, annotations: { outrigger.dev/claim: web-1 } }
spec: { taints: [{ key: karpenter.sh/disrupted, effect: NoSchedule }] }
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: { namespace: other, name: none }
spec: { maxUnavailable: 0, selector: {} }";

#[test]
fn lists_are_known_by_their_kind_wherever_it_stands() {
    let dump = |text: &str| lines_of(&Dump::parse(&[("f", text)]).unwrap());
    let pod = r#"{"metadata":{"name":"a"},"spec":{"containers":[]}}"#;
    let first = dump(&format!(r#"{{"apiVersion":"v1","kind":"PodList","items":[{pod}]}}"#));
    assert_eq!(first, "Pod default/a takes pods 1");
    assert_eq!(dump(&format!(r#"{{"items":[{pod}],"apiVersion":"v1","kind":"PodList"}}"#)), first);
    assert_eq!(dump(&format!("kind: PodList\nitems:\n- {pod}\napiVersion: v1\n")), first);
    let nested =
        format!(r#"{{"kind":"List","items":[{{"items":[{pod}],"kind":"PodList","apiVersion":"v1"}}]}}"#);
    assert_eq!(dump(&nested), first);
    let kindless = dump(&format!(r#"{{"kind":"List","items":[{pod}, null]}}"#));
    assert_eq!(kindless, "f: object 2: kind: found nothing; allowed: a kind, as Pod");
    let strange = dump(r#"{"items":[],"apiVersion":"v1","kind":"Pod"}"#);
    assert_eq!(strange, "f: object 1: kind: found items in a Pod; allowed: a Kubernetes object or List");
}

#[test]
fn yaml_streams_are_cut_into_documents() {
    let pod = |name: &str| {
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{ name: {name} }}\nspec: {{ containers: [] }}\n")
    };
    let text = format!(
        "%YAML 1.2\n---\n{}...\n# between\n---   # comment\n{}--- {{apiVersion: v1, kind: Pod, metadata: {{name: c}}, \
         spec: {{containers: []}}}}\n---\n---\n{}  # a block of text\n  notes: |\n    --- no marker\n",
        pod("a"),
        pod("b"),
        pod("d")
            .replace("metadata: { name: d }\n", "metadata:\n  name: d\n")
            .replace("spec: { containers: [] }\n", "spec:\n  containers: []\n"),
    );
    let dump = Dump::parse(&[("f", &text)]).unwrap();
    let names: Vec<_> = dump.pods.iter().map(|pod| pod.id.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "d"], "{:?}", dump.invalid);
    let broken = format!("{}---\n{}---\na: [1\n", pod("a"), pod("b"));
    let error = Dump::parse(&[("f", &broken)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "f: this is not YAML as kubectl writes it (lines are counted from line 11 on): line 1 column 4: \
         unclosed bracket '['"
    );
}

#[test]
fn a_pod_counts_once() {
    let pod = |name: &str, uid: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{ name: {name}, uid: {uid} }}\nspec: {{ containers: [] }}\n---\n"
        )
    };
    let lines_of_pods = |pods: &[String]| lines_of(&Dump::parse(&[("f", &pods.concat())]).unwrap());
    let once = "allowed: each object once; the first is used";
    assert_eq!(
        lines_of_pods(&[pod("a", "u"), pod("a", "v")]),
        format!(
            "Pod default/a takes pods 1\nf: Pod/default/a: metadata: found default/a a second time; {once}"
        )
    );
    assert_eq!(
        lines_of_pods(&[pod("a", "u"), pod("b", "u")]),
        format!("Pod default/a takes pods 1\nf: Pod/default/b: metadata.uid: found u a second time; {once}")
    );
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
    insta::assert_snapshot!(lines_of(&Dump::parse(&[("file.yaml", text)]).unwrap()), @r#"
    Pod shop/good takes pods 1
    Pod shop/quantity takes memory 9223372036854775807, pods 1
    Pod shop/type takes pods 1
    file.yaml: NodePool/old: apiVersion: found "karpenter.sh/v1beta1"; allowed: karpenter.sh/v1
    file.yaml: NodePool/bad: spec.template.spec.requirements[0].operator: found "Inn"; allowed: one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte
    file.yaml: object 7: kind: found "just a text"; allowed: a Kubernetes object or List
    file.yaml: object 8: kind: found nothing; allowed: a kind, as Pod
    not read whole: file.yaml: Pod/shop/quantity: spec.containers[0].resources.requests.memory: found "1gb"; allowed: a quantity such as 500m, 2 or 1.5Gi, from 0 to below 2^63
    not read whole: file.yaml: Pod/shop/type: spec.priority: found "high"; allowed: a whole number
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
    insta::assert_snapshot!(lines_of(&Dump::parse(&[("file.yaml", shared)]).unwrap()), @r#"
    Pod shop/a takes pods 1
    Pod shop/b takes pods 1
    "#);
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let below = format!("*a{}", level - 1);
        writeln!(bomb, "a{level}: &a{level} [{}]", [below.as_str(); 10].join(", ")).unwrap();
    }
    let error = Dump::parse(&[("bomb.yaml", &bomb)]).unwrap_err();
    let expected =
        "bomb.yaml: this is not YAML as kubectl writes it: line 5 column 45: alias replay limit exceeded";
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[test]
fn files_that_are_nothing_say_where() {
    let fails = |text: &str| {
        let error = Dump::parse(&[("f", text)]).unwrap_err();
        let cause = error.source().map(|cause| format!(": {cause}"));
        format!("{error}{}", cause.unwrap_or_default())
    };
    insta::assert_snapshot!(fails(r#"{"kind": "Pod", "#), @"f: this is not JSON as kubectl writes it: EOF while parsing a value at line 1 column 16");
    insta::assert_snapshot!(fails("kind: Pod\n  metadata: x\n"), @"f: this is not YAML as kubectl writes it: line 2 column 11: mapping values are not allowed in this context");
    let missing = Dump::read(&["/no/such/file"]).unwrap_err();
    assert_eq!(missing.to_string(), "/no/such/file: the file cannot be read");
    assert_eq!(lines_of(&Dump::parse(&[("empty.yaml", "")]).unwrap()), "");
}

#[test]
fn objects_can_be_had_as_they_were_written() {
    let mut reader = outrigger_kubernetes::RawReader::default();
    reader.add("pods.yaml", PODS.as_bytes()).unwrap();
    reader.add("list.json", TYPED_LIST.as_bytes()).unwrap();
    reader.add("strange.yaml", "just a text\n---\n{metadata: {name: x}}\n".as_bytes()).unwrap();
    let (objects, invalid) = reader.finish();
    let seen: Vec<String> = objects
        .iter()
        .map(|object| format!("{} {} {}", object.file, object.api_version, object.kind))
        .collect();
    let expected = [
        "pods.yaml v1 Pod",
        "pods.yaml apps/v1 Deployment",
        "pods.yaml v1 Node",
        "pods.yaml apps/v1 DaemonSet",
        "list.json v1 Pod",
        "list.json v1 Pod",
        "list.json v1 Service",
        "list.json longhorn.io/v1beta2 Node",
    ];
    assert_eq!(seen, expected);
    assert_eq!(objects[2].value["status"]["capacity"]["cpu"], "4");
    let complaints: Vec<String> = invalid.iter().map(ToString::to_string).collect();
    let expected = [
        "strange.yaml: object 1: kind: found \"just a text\"; allowed: a Kubernetes object or List",
        "strange.yaml: object 2: kind: found nothing; allowed: a kind, as Pod",
    ];
    assert_eq!(complaints, expected);
}
