//! EC2NodeClasses that cannot be: what they select in vain is named, and more user data than EC2
//! takes is refused.

use outrigger_engine::ports::{ClassSource, Cloud, CloudError};
use outrigger_model::{EC2NodeClass, LaunchTemplate};
use serde_json::{Value, json};

use crate::moto::Rig;

/// EC2's bound on user data.
const MOST_BYTES: usize = 16_384;

/// A class that can launch, with one field of its spec in another form.
fn class(rig: &Rig, field: &str, value: &Value) -> ClassSource {
    let mut object = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {
            "amiFamily": "Custom", "instanceProfile": "nodes", "userData": "#!/bin/bash\n",
            "amiSelectorTerms": [{"id": rig.image}],
            "securityGroupSelectorTerms": [{"name": format!("nodes.{}", rig.cluster)}],
            "subnetSelectorTerms": [{"tags": {"Name": format!("us-east-1a.{}", rig.cluster)}}],
        }
    });
    object["spec"][field] = value.clone();
    ClassSource::Ec2(Box::new(EC2NodeClass::read(&object).unwrap()))
}

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
        let resolved = rig.cloud.resolve_class(&class(&rig, field, &value)).await.unwrap();
        assert_eq!(resolved.not_ready.as_deref(), why, "{field}");
    }
}

#[tokio::test]
async fn more_user_data_than_ec2_takes_is_refused_by_name() {
    let rig = Rig::new().await;
    let mut resolved =
        rig.cloud.resolve_class(&class(&rig, "userData", &json!("#!/bin/sh\n"))).await.unwrap();
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
