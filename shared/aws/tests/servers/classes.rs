//! EC2NodeClasses that cannot be: what they select in vain is named, as is a script that kOps has
//! made anew, and more user data than EC2 takes is refused.

use outrigger_engine::ports::{Cloud, CloudError};
use outrigger_kops::sha256_base64;
use outrigger_model::LaunchTemplate;
use serde_json::json;

use crate::moto::{NODEUP_CONFIG, Rig, script};

/// EC2's bound on user data.
const MOST_BYTES: usize = 16_384;

#[tokio::test]
async fn what_a_class_selects_in_vain_is_named() {
    let rig = Rig::new().await;
    for (field, why) in [
        ("amiSelectorTerms", Some("spec.amiSelectorTerms select no image")),
        ("securityGroupSelectorTerms", Some("spec.securityGroupSelectorTerms select no security group")),
        ("subnetSelectorTerms", Some("spec.subnetSelectorTerms select no subnet")),
        ("userData", None),
    ] {
        let value =
            if why.is_some() { json!([{"tags": {"Name": "nobody's"}}]) } else { json!("#!/bin/sh\n") };
        let resolved = rig.cloud.resolve_class(&rig.ec2_class(&json!({field: value}))).await.unwrap();
        assert_eq!(resolved.not_ready.as_deref(), why, "{field}");
    }
}

#[tokio::test]
async fn a_script_that_kops_has_made_anew_is_named() {
    let rig = Rig::new().await;
    let resolved = async |hash: &str| {
        let fields = json!({"userData": script(hash), "tags": {"kops.k8s.io/instancegroup": "nodes"}});
        rig.cloud.resolve_class(&rig.ec2_class(&fields)).await.unwrap()
    };
    let stale = resolved("c3RhbGU=").await.not_ready.unwrap();
    assert!(stale.starts_with("spec.userData was made for NodeupConfigHash c3RhbGU=, and"), "{stale}");
    assert!(stale.ends_with("paste igconfig/node/nodes/nodeupscript.sh anew"), "{stale}");
    let current = resolved(&sha256_base64(NODEUP_CONFIG)).await;
    assert_eq!(current.not_ready, None);
    rig.cloud.ensure_template(&current, None).await.unwrap();

    rig.put("igconfig/node/nodes/nodeupconfig.yaml", &format!("{NODEUP_CONFIG}Extra: true\n")).await;
    let refused = rig.cloud.ensure_template(&current, None).await.unwrap_err().to_string();
    assert!(refused.contains("kops update is in progress"), "{refused}");
}

#[tokio::test]
async fn more_user_data_than_ec2_takes_is_refused_by_name() {
    let rig = Rig::new().await;
    let mut resolved =
        rig.cloud.resolve_class(&rig.ec2_class(&json!({"userData": "#!/bin/sh\n"}))).await.unwrap();
    let mut with = async |bytes: usize| {
        let LaunchTemplate::Own(template) = &mut resolved.launch else { panic!("not our own template") };
        template.user_data = "#".repeat(bytes);
        rig.cloud.ensure_template(&resolved, None).await
    };
    with(MOST_BYTES).await.unwrap();
    let refused = with(MOST_BYTES + 1).await.unwrap_err();
    let CloudError::Unusable { what, why } = &refused else { panic!("{refused}") };
    assert!(what.contains("the user data of EC2NodeClass") && what.contains("default"), "{what}");
    assert!(why.contains("16385 bytes, and EC2 takes 16384"), "{why}");
}
