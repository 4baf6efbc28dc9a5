//! EC2, the state store and the catalogue.

use std::collections::BTreeSet;

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use outrigger_engine::chain;
use outrigger_engine::ports::{ClassSource, Cloud, Configuration};
use outrigger_model::{EC2NodeClass, Finding, NodeClass, NodeClassRef, NodePool};

/// Two runs of `refresh`.
const OLD: SignedDuration = SignedDuration::from_hours(24);
/// A subnet with fewer free addresses soon takes no node more.
const FEW_ADDRESSES: u32 = 16;

/// Whether the catalogue is there and young.
pub(super) async fn catalog(cloud: &dyn Cloud) -> Finding {
    const SUBJECT: &str = "catalogue";
    let catalog = match cloud.catalog().await {
        Ok(catalog) => catalog,
        Err(error) => {
            let remedy = "deploy template.yaml again, which gives the role its rights to the bucket";
            return Finding::bad(SUBJECT, chain(&error), remedy);
        }
    };
    let detail = format!("{} types in {}, of {}", catalog.types.len(), catalog.region, catalog.taken_at);
    if Timestamp::now().duration_since(catalog.taken_at) > OLD {
        return Finding::remarkable(SUBJECT, detail, "invoke refresh once, and look at its log");
    }
    if catalog.spot_is_estimate {
        let detail = format!("{detail}; AWS did not say spot prices");
        return Finding::remarkable(SUBJECT, detail, "look at refresh's log");
    }
    Finding::good(SUBJECT, detail)
}

/// Whether machines can be made of the classes that NodePools name.
pub(super) async fn classes(cloud: &dyn Cloud, configuration: Configuration) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut pools = configuration.node_pools;
    match cloud.managed_pools().await {
        Ok(managed) => {
            findings.extend(managed.invalid.iter().map(|invalid| {
                let detail = format!("{}: {}", invalid.object, invalid.complaint());
                Finding::bad("InstanceGroups", detail, "mend it with `kops edit instancegroup`")
            }));
            pools.extend(managed.node_pools);
        }
        Err(error) => {
            let remedy =
                "StateStoreBucket and StateStorePrefix must be kOps' own, and the role may read them";
            findings.push(Finding::bad("state store", chain(&error), remedy));
        }
    }
    if pools.is_empty() {
        let remedy = "`kubectl apply -f nodepool.yaml`, which `outrigger setup` writes";
        findings.push(Finding::remarkable("NodePools", "there is none, so nothing is launched", remedy));
    }
    let references: BTreeSet<&NodeClassRef> = pools.iter().map(NodePool::node_class).collect();
    let classes = &configuration.ec2_node_classes;
    let resolved = join_all(references.into_iter().map(|reference| class(cloud, reference, classes))).await;
    findings.extend(resolved.into_iter().flatten());
    findings
}

async fn class(cloud: &dyn Cloud, reference: &NodeClassRef, classes: &[EC2NodeClass]) -> Vec<Finding> {
    let Some(source) = ClassSource::named(reference, classes) else {
        let detail = "there is no valid one of this name";
        return vec![Finding::bad(reference.to_string(), detail, "make it, or mend it")];
    };
    match cloud.resolve_class(&source).await {
        Ok(class) => class_findings(&class),
        Err(error) => vec![Finding::bad(reference.to_string(), chain(&error), "mend what it names")],
    }
}

fn class_findings(class: &NodeClass) -> Vec<Finding> {
    let subject = class.reference.to_string();
    if let Some(why) = &class.not_ready {
        return vec![Finding::bad(subject, why, "mend what it names")];
    }
    let mut findings = Vec::new();
    for remark in &class.remarks {
        findings.push(Finding::remarkable(&subject, remark, "see docs/fields.md"));
    }
    for subnet in class.subnets.iter().filter(|subnet| subnet.free_addresses < FEW_ADDRESSES) {
        let detail = format!("{} in {} has {} addresses left", subnet.id, subnet.zone, subnet.free_addresses);
        findings.push(Finding::remarkable(&subject, detail, "add a larger subnet of this zone"));
    }
    if findings.is_empty() {
        let images = class.images.len();
        findings.push(Finding::good(subject, format!("{images} images, {} subnets", class.subnets.len())));
    }
    findings
}

#[cfg(test)]
mod tests {
    use outrigger_model::{Health, Subnet};

    use super::*;

    #[test]
    fn a_class_says_what_it_lacks() {
        let mut class = NodeClass::for_planning(NodeClassRef::instance_group("nodes"));
        class.subnets = [16, 15]
            .map(|free_addresses| Subnet {
                id: format!("subnet-{free_addresses}"),
                zone: "us-east-1a".into(),
                zone_id: String::new(),
                free_addresses,
            })
            .into();
        let findings = class_findings(&class);
        let [few] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!(few.detail, "subnet-15 in us-east-1a has 15 addresses left");
        class.subnets.pop();
        assert_eq!(class_findings(&class)[0].health, Health::Good);
        class.not_ready = Some("no image".into());
        assert_eq!(
            class_findings(&class),
            [Finding::bad("InstanceGroup/nodes", "no image", "mend what it names")]
        );
    }
}
