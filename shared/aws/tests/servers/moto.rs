//! EC2, S3, SSM and EventBridge on moto, which checks the wire format: classes, templates, fleets.
use std::collections::{BTreeMap, BTreeSet};

use aws_config::SdkConfig;
use aws_sdk_ec2::types::{
    LaunchTemplateTagSpecificationRequest, RequestLaunchTemplateData, ResourceType, Tag, TagSpecification,
};
use aws_sdk_ssm::types::ParameterType;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use outrigger_aws::{Aws, AwsCloud, AwsConfig};
use outrigger_engine::ports::{ClassSource, Cloud, CloudError, ManagedPools, Notice};
use outrigger_kops::sha256_base64;
use outrigger_model::{
    CapacityType, EC2NodeClass, FleetOverride, FleetRequest, LaunchTemplate, Price, Quantity, Resources,
    Subnet, labels,
};
use serde_json::json;

use crate::support::stand_in::StandIn;
use crate::support::{config, server};

pub(crate) const NODEUP_CONFIG: &str = "ClusterName: k\nKubeletConfig:\n  maxPods: 64\n";

/// A cluster of its own in moto: state store, subnets, security group and kOps' launch template of
/// group `nodes`.
pub(crate) struct Rig {
    pub(crate) cluster: String,
    pub(crate) cloud: AwsCloud,
    pub(crate) sdk: SdkConfig,
    ec2: aws_sdk_ec2::Client,
    pub(crate) s3: aws_sdk_s3::Client,
    pub(crate) image: String,
    pub(crate) bucket: String,
}

fn tagged(kind: ResourceType, name: &str) -> TagSpecification {
    let tag = Tag::builder().key("Name").value(name).build();
    TagSpecification::builder().resource_type(kind).tags(tag).build()
}

pub(crate) fn script(hash: &str) -> String {
    format!(
        "#!/bin/bash\ncat > conf/kube_env.yaml << '__EOF_KUBE_ENV'\nNodeupConfigHash: {hash}\n__EOF_KUBE_ENV\n"
    )
}

impl Rig {
    pub(crate) async fn new() -> Self {
        let sdk = config(&server("OUTRIGGER_TEST_MOTO")).await;
        let ec2 = aws_sdk_ec2::Client::new(&sdk);
        let s3_config = aws_sdk_s3::config::Builder::from(&sdk).force_path_style(true).build();
        let s3 = aws_sdk_s3::Client::from_conf(s3_config);
        let cluster = format!("k{}.example.com", Timestamp::now().as_nanosecond());
        let bucket = format!("state-{}", cluster.replace('.', "-"));
        s3.create_bucket().bucket(&bucket).send().await.unwrap();
        let images = ec2.describe_images().owners("amazon").send().await.unwrap();
        let x86 = |image: &&aws_sdk_ec2::types::Image| {
            image.architecture().is_some_and(|arch| arch.as_str() == "x86_64")
        };
        let image = images.images().iter().find(x86).and_then(|image| image.image_id()).unwrap().to_owned();
        let config = AwsConfig {
            cluster: cluster.clone(),
            state_store: Some(format!("s3://{bucket}").parse().unwrap()),
            catalog: Some(format!("s3://{bucket}/catalog").parse().unwrap()),
            event_bus: None,
        };
        let cloud = AwsCloud::new(Aws::new(sdk.clone()), config);
        let rig = Self { cluster, cloud, sdk, ec2, s3, image, bucket };
        rig.fill().await;
        rig
    }

    /// The same account with a stand-in before it.
    async fn behind(&self, ec2: &StandIn) -> AwsCloud {
        let cluster = self.cluster.clone();
        let settings = AwsConfig { cluster, state_store: None, catalog: None, event_bus: None };
        AwsCloud::new(Aws::new(config(&ec2.url).await), settings)
    }

    /// An EC2NodeClass with these fields beside those that it needs.
    pub(crate) fn ec2_class(&self, fields: &serde_json::Value) -> ClassSource {
        let mut spec = json!({
            "amiFamily": "Custom", "amiSelectorTerms": [{"id": self.image}],
            "instanceProfile": "nodes", "userData": "#!/bin/bash\n",
            "securityGroupSelectorTerms": [{"name": format!("nodes.{}", self.cluster)}],
            "subnetSelectorTerms": [{"tags": {"Name": format!("us-east-1a.{}", self.cluster)}}],
        });
        spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let object = json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"}, "spec": spec,
        });
        ClassSource::Ec2(Box::new(EC2NodeClass::read(&object).unwrap()))
    }

    async fn fill(&self) {
        let cluster = &self.cluster;
        let vpc = self.ec2.create_vpc().cidr_block("10.20.0.0/16").send().await.unwrap();
        let vpc = vpc.vpc().unwrap().vpc_id().unwrap().to_owned();
        let mut ids = Vec::new();
        for (zone, cidr) in [("us-east-1a", "10.20.0.0/20"), ("us-east-1b", "10.20.16.0/20")] {
            let name = format!("{zone}.{cluster}");
            let made = self.ec2.create_subnet().vpc_id(&vpc).cidr_block(cidr).availability_zone(zone);
            let made = made.tag_specifications(tagged(ResourceType::Subnet, &name)).send().await.unwrap();
            ids.push(made.subnet().unwrap().subnet_id().unwrap().to_owned());
        }
        let shared = &ids[1];
        let group = self.ec2.create_security_group().vpc_id(&vpc).group_name(format!("nodes.{cluster}"));
        let group = group
            .description("nodes")
            .tag_specifications(tagged(ResourceType::SecurityGroup, &format!("nodes.{cluster}")));
        group.send().await.unwrap();
        self.put_template(&script(&sha256_base64(NODEUP_CONFIG))).await;
        self.put("cluster-completed.spec", &format!(
            "apiVersion: kops.k8s.io/v1alpha2\nkind: Cluster\nmetadata:\n  name: {cluster}\nspec:\n  networking:\n    cilium: {{}}\n  \
             subnets:\n  - name: us-east-1a\n    type: Private\n    zone: us-east-1a\n  - name: b\n    id: {shared}\n    \
             type: Private\n    zone: us-east-1b\n"
        )).await;
        for (name, spec) in [
            ("nodes", "  manager: CloudGroup\n  minSize: 0\n  maxSize: 0\n"),
            ("own", "  manager: Karpenter\n  minSize: 2\n  maxSize: 5\n  maxPrice: \"0.05\"\n"),
            ("broken", "  manager: Argo\n"),
        ] {
            let image = &self.image;
            self.put(&format!("instancegroup/{name}"), &format!(
                "apiVersion: kops.k8s.io/v1alpha2\nkind: InstanceGroup\nmetadata:\n  name: {name}\n  annotations:\n    \
                 outrigger.dev/managed: \"true\"\nspec:\n  role: Node\n  image: {image}\n  machineType: m5.large\n{spec}"
            )).await;
            self.put(&format!("igconfig/node/{name}/nodeupconfig.yaml"), NODEUP_CONFIG).await;
        }
        self.put("igconfig/node/own/nodeupscript.sh", &script(&sha256_base64(NODEUP_CONFIG))).await;
        self.put("kops-version.txt", "1.34.1").await;
    }

    pub(crate) async fn put(&self, path: &str, content: &str) {
        let key = format!("{}/{path}", self.cluster);
        let body = content.as_bytes().to_vec().into();
        self.s3.put_object().bucket(&self.bucket).key(key).body(body).send().await.unwrap();
    }

    fn template_data(&self, script: &str) -> RequestLaunchTemplateData {
        let data = RequestLaunchTemplateData::builder().image_id(&self.image);
        let tag = Tag::builder().key("aws-node-termination-handler/managed").value("").build();
        let tags = LaunchTemplateTagSpecificationRequest::builder().resource_type(ResourceType::Instance);
        data.user_data(STANDARD.encode(script)).tag_specifications(tags.tags(tag).build()).build()
    }

    fn template_name(&self) -> String {
        format!("nodes.{}", self.cluster)
    }

    /// kOps' template of group `nodes`.
    async fn put_template(&self, script: &str) {
        let create = self.ec2.create_launch_template().launch_template_name(self.template_name());
        create.launch_template_data(self.template_data(script)).send().await.unwrap();
    }

    /// A new version of it, which is not the default one, as Terraform leaves it.
    async fn put_version(&self, script: &str) {
        let create = self.ec2.create_launch_template_version().launch_template_name(self.template_name());
        create.launch_template_data(self.template_data(script)).send().await.unwrap();
    }

    /// Makes a version the default one, as kOps does.
    async fn make_default(&self, version: &str) {
        let modify = self.ec2.modify_launch_template().launch_template_name(self.template_name());
        modify.default_version(version).send().await.unwrap();
    }

    async fn class(&self, group: &str) -> outrigger_model::NodeClass {
        self.cloud.resolve_class(&ClassSource::InstanceGroup(group.into())).await.unwrap()
    }

    /// The same cloud without what this process remembers.
    fn forgetful(&self) -> AwsCloud {
        let config = AwsConfig {
            cluster: self.cluster.clone(),
            state_store: Some(format!("s3://{}", self.bucket).parse().unwrap()),
            catalog: None,
            event_bus: None,
        };
        AwsCloud::new(Aws::new(self.sdk.clone()), config)
    }
}

#[tokio::test]
async fn a_group_of_kops_becomes_a_class_that_borrows_its_template() {
    let rig = Rig::new().await;
    let class = rig.class("nodes").await;
    assert_eq!(class.not_ready, None);
    let zones: Vec<_> = class.subnets.iter().map(|subnet| subnet.zone.as_str()).collect();
    assert_eq!(zones, ["us-east-1a", "us-east-1b"]);
    assert!(class.subnets.iter().all(|subnet| subnet.free_addresses > 4_000 && !subnet.zone_id.is_empty()));
    assert_eq!(
        (class.images.len(), class.images[0].id.as_str(), class.images[0].arch.as_str()),
        (1, rig.image.as_str(), "amd64")
    );
    assert!(class.remarks[0].contains("aws-node-termination-handler drains them too"), "{:?}", class.remarks);
    assert_eq!(rig.class("own").await.remarks, Vec::<String>::new());
    let template = rig.cloud.ensure_template(&class, None).await.unwrap();
    assert_eq!((template.name, template.version), (format!("nodes.{}", rig.cluster), "1".to_owned()));
}

#[tokio::test]
async fn a_template_whose_default_version_stays_behind_is_borrowed_in_its_latest() {
    let rig = Rig::new().await;
    let changed = format!("{NODEUP_CONFIG}Extra: true\n");
    rig.put("igconfig/node/nodes/nodeupconfig.yaml", &changed).await;
    rig.put_version(&script(&sha256_base64(&changed))).await;
    let class = rig.class("nodes").await;
    assert_eq!(class.not_ready, None);
    assert_eq!(rig.cloud.ensure_template(&class, None).await.unwrap().version, "2");
}

#[tokio::test]
async fn while_kops_updates_nothing_is_launched() {
    let rig = Rig::new().await;
    let class = rig.class("nodes").await;
    let changed = format!("{NODEUP_CONFIG}Extra: true\n");
    rig.put("igconfig/node/nodes/nodeupconfig.yaml", &changed).await;
    let refused = rig.cloud.ensure_template(&class, None).await.unwrap_err().to_string();
    assert!(refused.contains("kops update is in progress"), "{refused}");
    let class = rig.class("nodes").await;
    let why = class.not_ready.clone().unwrap();
    assert!(why.starts_with("kops update is in progress"), "{why}");
    assert!(matches!(rig.cloud.ensure_template(&class, None).await, Err(CloudError::Unusable { .. })));
    rig.put_version(&script(&sha256_base64(&changed))).await;
    rig.make_default("2").await;
    let class = rig.forgetful().resolve_class(&ClassSource::InstanceGroup("nodes".into())).await.unwrap();
    let LaunchTemplate::Borrowed { version, .. } = &class.launch else { panic!("{:?}", class.not_ready) };
    assert_eq!(version, "2");
}

#[tokio::test]
async fn a_group_with_manager_karpenter_gets_one_template_however_often_it_is_asked_for() {
    let rig = Rig::new().await;
    let class = rig.class("own").await;
    assert_eq!(class.not_ready, None);
    let first = rig.cloud.ensure_template(&class, None).await.unwrap();
    let again = rig.forgetful().ensure_template(&class, None).await.unwrap();
    assert_eq!(first, again);
    let described =
        rig.ec2.describe_launch_templates().launch_template_names(&first.name).send().await.unwrap();
    let tags: BTreeMap<_, _> = described.launch_templates()[0]
        .tags()
        .iter()
        .map(|tag| (tag.key().unwrap_or_default(), tag.value().unwrap_or_default()))
        .collect();
    assert_eq!(tags.get("KubernetesCluster"), Some(&rig.cluster.as_str()));
    assert_eq!(tags.get(format!("kubernetes.io/cluster/{}", rig.cluster).as_str()), Some(&"owned"));
    assert!(!tags.contains_key("Name"));
    let versions =
        rig.ec2.describe_launch_template_versions().launch_template_name(&first.name).send().await.unwrap();
    let [version] = versions.launch_template_versions() else { panic!("not one version") };
    let data = version.launch_template_data().unwrap();
    let user_data = String::from_utf8(STANDARD.decode(data.user_data().unwrap()).unwrap()).unwrap();
    assert_eq!(user_data, script(&sha256_base64(NODEUP_CONFIG)));
    assert_eq!(data.iam_instance_profile().unwrap().name(), Some(format!("nodes.{}", rig.cluster).as_str()));
    assert_eq!(data.block_device_mappings()[0].ebs().unwrap().volume_size(), Some(128));
}

#[tokio::test]
async fn what_cannot_be_resolved_says_what_and_why() {
    let rig = Rig::new().await;
    let broken =
        rig.cloud.resolve_class(&ClassSource::InstanceGroup("broken".into())).await.unwrap_err().to_string();
    assert!(broken.contains("spec.manager: found \"Argo\""), "{broken}");
    let missing =
        rig.cloud.resolve_class(&ClassSource::InstanceGroup("none".into())).await.unwrap_err().to_string();
    assert!(missing.contains("instancegroup/none cannot be used: it does not exist"), "{missing}");
    let ManagedPools { node_pools, invalid } = rig.cloud.managed_pools().await.unwrap();
    let names: Vec<_> = node_pools.iter().map(|pool| pool.name.as_str()).collect();
    assert_eq!((names, invalid.len()), (vec!["nodes", "own-min", "own"], 1));
    assert_eq!(invalid[0].object, "InstanceGroup/broken");
    let of_own: Vec<_> = node_pools[1..].iter().map(|pool| (pool.spec.replicas, &pool.spec.limits)).collect();
    let limits = Some(Resources::new().with("nodes", Quantity::units(3)));
    assert_eq!(of_own, [(Some(2), &None), (None, &limits)], "minSize 2 and maxSize 5");
    assert_eq!(rig.class("own").await.max_spot_price, Some(Price::from_nanos(50_000_000)));
    // What was read is kept for a minute.
    rig.put("instancegroup/late", "outrigger.dev/managed").await;
    assert_eq!(rig.cloud.managed_pools().await.unwrap().invalid.len(), 1);
    assert_eq!(rig.forgetful().managed_pools().await.unwrap().invalid.len(), 2);
}

#[tokio::test]
async fn an_ec2_node_class_is_resolved_by_its_selectors() {
    let rig = Rig::new().await;
    let class = |image: serde_json::Value| rig.ec2_class(&json!({"amiSelectorTerms": [image]}));
    let resolved = rig.cloud.resolve_class(&class(json!({"id": rig.image}))).await.unwrap();
    assert_eq!(resolved.not_ready, None);
    assert_eq!((resolved.subnets.len(), resolved.images[0].id.as_str()), (1, rig.image.as_str()));
    let LaunchTemplate::Own(template) = &resolved.launch else { panic!("not our own template") };
    assert_eq!((template.security_groups.len(), template.instance_profile.as_str()), (1, "nodes"));
    let template = rig.cloud.ensure_template(&resolved, None).await.unwrap();
    let written = rig.cloud.own_templates().await.unwrap();
    let names: Vec<_> = written.iter().map(|template| template.name.as_str()).collect();
    assert_eq!(names, [template.name.as_str()], "that of kOps is none of ours");
    for _ in 0..2 {
        rig.cloud.delete_template(&written[0].id).await.unwrap();
    }
    assert!(rig.cloud.own_templates().await.unwrap().is_empty());
    let parameter = format!("/{}/image", rig.cluster);
    let ssm = aws_sdk_ssm::Client::new(&rig.sdk);
    ssm.put_parameter()
        .name(&parameter)
        .value(&rig.image)
        .r#type(ParameterType::String)
        .send()
        .await
        .unwrap();
    let by_parameter = rig.cloud.resolve_class(&class(json!({"ssmParameter": parameter}))).await.unwrap();
    assert_eq!(by_parameter.images, resolved.images);
    let none = rig.cloud.resolve_class(&class(json!({"name": "no-such-image"}))).await.unwrap();
    rig.put(
        "instancegroup/masters",
        "apiVersion: kops.k8s.io/v1alpha2\nkind: InstanceGroup\nmetadata: {name: masters}\nspec: {role: ControlPlane}\n",
    )
    .await;
    for (group, problem) in
        [("nodes", None), ("masters", Some("one of role ControlPlane")), ("no", Some("none that is known"))]
    {
        let ClassSource::Ec2(mut tagged) = class(json!({"id": rig.image})) else { unreachable!() };
        tagged.spec.tags.insert("kops.k8s.io/instancegroup".into(), group.into());
        let said =
            rig.cloud.resolve_class(&ClassSource::Ec2(tagged)).await.err().map(|error| error.to_string());
        assert_eq!(said.is_some(), problem.is_some(), "{said:?}");
        assert!(said.unwrap_or_default().contains(problem.unwrap_or_default()), "{group}");
    }
    assert_eq!(none.not_ready.as_deref(), Some("spec.amiSelectorTerms select no image"));
}

#[tokio::test]
async fn deprecated_images_are_asked_for_and_ids_are_asked_as_ids() {
    let rig = Rig::new().await;
    let ec2 = StandIn::start(&server("OUTRIGGER_TEST_MOTO"), "DescribeImages", A_DEPRECATED_IMAGE);
    let cloud = rig.behind(&ec2).await;
    let class = |image: serde_json::Value| rig.ec2_class(&json!({"amiSelectorTerms": [image]}));
    let by_name = cloud.resolve_class(&class(json!({"name": "of-last-year"}))).await.unwrap();
    let by_id = cloud.resolve_class(&class(json!({"id": "ami-0deprecated"}))).await.unwrap();
    for resolved in [by_name, by_id] {
        assert_eq!(resolved.not_ready, None);
        assert_eq!(resolved.images[0].id, "ami-0deprecated");
    }
    let asked = ec2.asked("DescribeImages");
    let [by_name, by_id] = &asked[..] else { panic!("each is asked once: {asked:?}") };
    for words in ["IncludeDeprecated=true", "Name=state", "Value.1=available"] {
        assert!(by_name.contains(words), "{words}: {by_name}");
    }
    assert!(
        by_id.contains("ImageId.1=ami-0deprecated") && by_id.contains("IncludeDeprecated=true"),
        "{by_id}"
    );
}

#[tokio::test]
async fn an_image_that_does_not_exist_is_named_by_its_class() {
    let rig = Rig::new().await;
    let none = rig
        .cloud
        .resolve_class(&rig.ec2_class(&json!({"amiSelectorTerms": [{"id": "ami-00000000000000000"}]})))
        .await
        .unwrap();
    assert_eq!(none.not_ready.as_deref(), Some("spec.amiSelectorTerms select no image"));
}

const A_DEPRECATED_IMAGE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<DescribeImagesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId><imagesSet><item>
<imageId>ami-0deprecated</imageId><imageState>available</imageState><architecture>x86_64</architecture>
<creationDate>2025-01-01T00:00:00.000Z</creationDate><deprecationTime>2025-06-01T00:00:00.000Z</deprecationTime>
<rootDeviceName>/dev/sda1</rootDeviceName></item></imagesSet></DescribeImagesResponse>"#;

async fn request(rig: &Rig, intent: &str, capacity_type: CapacityType) -> FleetRequest {
    let class = rig.class("nodes").await;
    let template = rig.cloud.ensure_template(&class, None).await.unwrap();
    let mut tags = class.tags.clone();
    tags.insert("outrigger.dev/intent".into(), intent.into());
    let overrides = class.subnets.iter().map(|subnet| FleetOverride {
        instance_type: "m5.large".into(),
        zone: subnet.zone.clone(),
        subnet: subnet.id.clone(),
        image: class.images[0].id.clone(),
        price: Price::from_nanos(96_000_000),
    });
    FleetRequest {
        token: format!("{intent}.1"),
        launch_template: template.name,
        launch_template_version: template.version,
        capacity_type,
        count: 3,
        max_spot_price: class.max_spot_price,
        spot_allocation: class.spot_allocation,
        prioritized: false,
        reservation: None,
        overrides: overrides.collect(),
        tags,
    }
}

#[tokio::test]
async fn a_fleet_is_launched_and_found_again_by_its_intent() {
    let rig = Rig::new().await;
    for capacity_type in [CapacityType::Spot, CapacityType::OnDemand] {
        let intent = format!("{}-{capacity_type}", rig.cluster);
        let request = request(&rig, &intent, capacity_type).await;
        let answer = rig.cloud.launch(&request).await.unwrap();
        assert_eq!((answer.instances.len(), answer.errors.len()), (3, 0));
        let first = &answer.instances[0];
        assert_eq!(
            (first.zone.as_str(), first.price.nanos(), first.capacity_type),
            ("us-east-1a", 96_000_000, capacity_type)
        );
        let instances = rig.cloud.instances_of(&intent).await.unwrap();
        let ids = |instances: &[outrigger_model::Instance]| -> BTreeSet<String> {
            instances.iter().map(|instance| instance.id.clone()).collect()
        };
        assert_eq!(ids(&instances), ids(&answer.instances));
        assert!(
            instances
                .iter()
                .all(|instance| instance.capacity_type == capacity_type && instance.zone == "us-east-1a")
        );
        let described = rig.ec2.describe_instances().instance_ids(&first.id).send().await.unwrap();
        let instance = &described.reservations()[0].instances()[0];
        let tags: BTreeMap<_, _> =
            instance.tags().iter().filter_map(|tag| Some((tag.key()?, tag.value()?))).collect();
        assert_eq!(tags.get("kops.k8s.io/instancegroup"), Some(&"nodes"));
        assert_eq!(tags.get("Name").copied(), Some(format!("nodes.{}", rig.cluster).as_str()));
        rig.ec2.terminate_instances().instance_ids(&first.id).send().await.unwrap();
        assert_eq!(rig.cloud.instances_of(&intent).await.unwrap().len(), 2);
    }
    assert_eq!(rig.cloud.instances_of("no such intent").await.unwrap(), []);
}

#[tokio::test]
async fn instances_are_found_by_their_cluster_and_ended() {
    let rig = Rig::new().await;
    let mut wanted = request(&rig, "ending", CapacityType::OnDemand).await;
    wanted.tags.insert(labels::CLUSTER.into(), rig.cluster.clone());
    wanted.tags.insert(labels::NODE_POOL.into(), "general".into());
    let launched = rig.cloud.launch(&wanted).await.unwrap().instances;
    let mut ids: Vec<String> = launched.iter().map(|instance| instance.id.clone()).collect();
    ids.sort();
    let machines = rig.cloud.machines().await.unwrap();
    assert_eq!(machines.iter().map(|machine| machine.id.clone()).collect::<Vec<_>>(), ids);
    for machine in &machines {
        let tags = (machine.intent.as_deref(), machine.node_pool.as_deref());
        assert_eq!(tags, (Some("ending"), Some("general")));
        assert!(!machine.state.is_ending(), "{machine:?}");
        rig.cloud.boot_progress(&machine.id).await.unwrap();
    }
    assert_eq!(rig.cloud.instance_statuses().await.unwrap(), [], "all are well");
    // One id that EC2 does not know must not save the others.
    ids.insert(0, "i-00000000000000000".into());
    assert_eq!(rig.cloud.terminate(&ids).await.unwrap(), BTreeMap::new());
    let machines = rig.cloud.machines().await.unwrap();
    assert!(machines.iter().all(|machine| machine.state.is_ending()), "{machines:?}");
    assert_eq!(rig.cloud.terminate(&ids).await.unwrap(), BTreeMap::new(), "twice is once");
    assert_eq!(rig.cloud.instances_of("ending").await.unwrap(), []);
}

#[tokio::test]
async fn a_refusal_and_a_silence_are_told_apart() {
    let rig = Rig::new().await;
    let mut request = request(&rig, "x", CapacityType::OnDemand).await;
    request.launch_template = "gone".into();
    let refused = rig.cloud.launch(&request).await.unwrap_err();
    assert!(
        matches!(&refused, CloudError::Refused { code, .. } if code.starts_with("InvalidLaunchTemplate")),
        "{refused}"
    );
    let silent =
        AwsConfig { cluster: rig.cluster.clone(), state_store: None, catalog: None, event_bus: None };
    let silent = AwsCloud::new(Aws::new(config("http://127.0.0.1:9").await), silent);
    let unknown = silent.launch(&request).await.unwrap_err();
    assert!(matches!(unknown, CloudError::Unknown { .. }), "{unknown}");
    assert!(matches!(silent.instances_of("x").await, Err(CloudError::Unknown { .. })));
}

#[tokio::test]
async fn secrets_are_read_and_notices_sent() {
    let rig = Rig::new().await;
    let name = format!("/{}/token", rig.cluster);
    let ssm = aws_sdk_ssm::Client::new(&rig.sdk);
    ssm.put_parameter().name(&name).value("s3cret").r#type(ParameterType::SecureString).send().await.unwrap();
    let aws = Aws::new(rig.sdk.clone());
    assert_eq!(aws.secret(&name).await.unwrap().expose(), "s3cret");
    assert!(matches!(aws.secret("/none").await, Err(CloudError::Unusable { .. })));
    assert!(aws.api_token(&rig.cluster).await.unwrap().token.expose().starts_with("k8s-aws-v1."));
    let notice = Notice {
        kind: "NodeClaims Launched",
        cluster: rig.cluster.clone(),
        claims: vec!["general-1".into()],
        detail: BTreeMap::new(),
    };
    rig.cloud.publish(&notice).await.unwrap();
}

/// As EC2 writes them: one that nodes may start in, one of another platform, and a capacity block.
const RESERVATIONS: &str = r#"
<DescribeCapacityReservationsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><capacityReservationSet>
  <item>
    <capacityReservationId>cr-1</capacityReservationId><instanceType>m5.large</instanceType>
    <instancePlatform>Linux/UNIX</instancePlatform><availabilityZone>us-east-1a</availabilityZone>
    <tenancy>default</tenancy><state>active</state>
    <totalInstanceCount>4</totalInstanceCount><availableInstanceCount>3</availableInstanceCount>
  </item>
  <item>
    <capacityReservationId>cr-2</capacityReservationId><instanceType>m5.large</instanceType>
    <instancePlatform>Windows</instancePlatform><availabilityZone>us-east-1a</availabilityZone>
  </item>
  <item>
    <capacityReservationId>cr-3</capacityReservationId><instanceType>p5.48xlarge</instanceType>
    <instancePlatform>Linux/UNIX</instancePlatform><availabilityZone>us-east-1a</availabilityZone>
    <reservationType>capacity-block</reservationType>
  </item>
</capacityReservationSet></DescribeCapacityReservationsResponse>"#;

// moto knows no reservations: what it is sent is looked at instead.
#[tokio::test]
async fn a_class_launches_into_the_reservations_that_it_selects() {
    let rig = Rig::new().await;
    let ec2 = StandIn::start(&server("OUTRIGGER_TEST_MOTO"), "DescribeCapacityReservations", RESERVATIONS);
    let cloud = rig.behind(&ec2).await;
    let terms = json!([{"tags": {"team": "red"}, "instanceMatchCriteria": "targeted"}]);
    let source = rig.ec2_class(&json!({"capacityReservationSelectorTerms": terms}));
    let class = cloud.resolve_class(&source).await.unwrap();
    let reservations = class.reservations.iter().map(|reservation| {
        (reservation.id.as_str(), reservation.zone.as_str(), reservation.available, reservation.total)
    });
    assert_eq!(reservations.collect::<Vec<_>>(), [("cr-1", "us-east-1a", 3, 4)]);
    let [asked] = &ec2.asked("DescribeCapacityReservations")[..] else { panic!("asked once") };
    for filter in ["state&Filter.1.Value.1=active", "tag%3Ateam", "instance-match-criteria"] {
        assert!(asked.contains(filter), "{asked}");
    }

    let template = cloud.ensure_template(&class, Some("cr-1")).await.unwrap();
    let on_demand = cloud.ensure_template(&class, None).await.unwrap();
    assert_ne!(template, on_demand);
    let written = ec2.asked("CreateLaunchTemplate");
    let specification = "LaunchTemplateData.CapacityReservationSpecification.CapacityReservation";
    for part in ["Preference=capacity-reservations-only", "Target.CapacityReservationId=cr-1"] {
        assert!(written[0].contains(&format!("{specification}{part}")), "{}", written[0]);
    }
    assert!(written[1].contains(&format!("{specification}Preference=none")), "{}", written[1]);

    let request = FleetRequest {
        launch_template: template.name,
        launch_template_version: template.version,
        capacity_type: CapacityType::Reserved,
        reservation: Some("cr-1".into()),
        ..request(&rig, &format!("{}-reserved", rig.cluster), CapacityType::OnDemand).await
    };
    let answer = cloud.launch(&request).await.unwrap();
    assert_eq!(answer.errors, []);
    assert!(answer.instances.iter().all(|instance| instance.capacity_type == CapacityType::Reserved));
    let refused =
        cloud.ensure_template(&rig.class("nodes").await, Some("cr-1")).await.unwrap_err().to_string();
    assert!(refused.contains("start in no capacity reservation"), "{refused}");
}

/// As EC2 writes it: it counts IPv4 addresses alone.
const SUBNET_OF_IPV6: &str = r#"
<DescribeSubnetsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><subnetSet><item>
  <subnetId>subnet-6</subnetId><availabilityZone>us-east-1a</availabilityZone>
  <availabilityZoneId>use1-az6</availabilityZoneId>
  <availableIpAddressCount>0</availableIpAddressCount><ipv6Native>true</ipv6Native>
</item></subnetSet></DescribeSubnetsResponse>"#;

// moto counts the addresses of such a subnet, more than a number of EC2's can hold.
#[tokio::test]
async fn a_subnet_of_ipv6_alone_is_launched_into_with_an_address() {
    let rig = Rig::new().await;
    let ec2 = StandIn::start(&server("OUTRIGGER_TEST_MOTO"), "DescribeSubnets", SUBNET_OF_IPV6);
    let cloud = rig.behind(&ec2).await;
    let source = rig.ec2_class(&json!({"metadataOptions": {"httpProtocolIPv6": "enabled"}}));
    let class = cloud.resolve_class(&source).await.unwrap();
    assert_eq!(class.not_ready, None);
    assert_eq!(class.subnets[0].free_addresses, Subnet::IPV6_ALONE);
    cloud.ensure_template(&class, None).await.unwrap();
    let written = &ec2.asked("CreateLaunchTemplate")[0];
    for part in ["NetworkInterface.1.Ipv6AddressCount=1", "MetadataOptions.HttpProtocolIpv6=enabled"] {
        assert!(written.contains(part), "{part} in {written}");
    }
}
