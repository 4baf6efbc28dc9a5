//! The generated CustomResourceDefinitions on the real API server: kOps' own manifests apply
//! unchanged.

use outrigger_stack::{Options, Stack};

/// The manifests of kOps' documentation for Karpenter, as a shell would expand them.
const MANIFESTS: &str = include_str!("kops-karpenter.yaml");

#[test]
fn the_manifests_of_kops_documentation_apply_unchanged() {
    let stack = Stack::start(Options::default()).unwrap();
    stack.kubernetes().apply_yaml(MANIFESTS).unwrap();
    let pool = stack.kubernetes().get("/apis/karpenter.sh/v1/nodepools/default").unwrap();
    assert_eq!(pool["spec"]["disruption"]["consolidationPolicy"], "WhenEmptyOrUnderutilized", "{pool}");
    assert_eq!(pool["spec"]["template"]["spec"]["expireAfter"], "720h", "{pool}");
    let class = stack.kubernetes().get("/apis/karpenter.k8s.aws/v1/ec2nodeclasses/default").unwrap();
    assert_eq!(class["spec"]["metadataOptions"]["httpTokens"], "required", "{class}");
}

#[test]
fn the_api_server_refuses_what_its_schema_can_see() {
    let stack = Stack::start(Options::default()).unwrap();
    let broken = MANIFESTS.replace("operator: In", "operator: Inn");
    let error = format!("{:#}", stack.kubernetes().apply_yaml(&broken).unwrap_err());
    assert!(error.contains("Inn"), "{error}");
}
