//! Capacity and allocatable of kOps' nodes: nodeup's rules, type by type and setting by setting.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use outrigger_catalog::{CatalogError, allocatable, embedded};
use outrigger_model::{Kubelet, KubeletSettings, Quantity, Resources};

/// Changes a default setting.
type Change = fn(&mut KubeletSettings);

const DEFAULT: Change = |_| {};
const ENI_LIMITED: Change = |settings| settings.eni_limited = true;

/// A row: type, settings, expected allocatable of cpu, memory, ephemeral storage and pods.
type Row = (&'static str, Change, [&'static str; 4]);

fn check(rows: &[Row]) {
    for (index, (name, change, expected)) in rows.iter().enumerate() {
        let actual = allocatable_of(name, *change);
        let actual = ["cpu", "memory", "ephemeral-storage", "pods"].map(|resource| actual.get(resource));
        let expected = expected.map(|text| text.parse::<Quantity>().unwrap());
        assert_eq!(actual, expected, "row {index}: {name}: {}", actual.map(|q| q.to_string()).join(", "));
    }
}

fn allocatable_of(name: &str, change: Change) -> Resources {
    let mut settings = KubeletSettings::default();
    change(&mut settings);
    let facts = embedded::facts_of(name).unwrap();
    allocatable::node_resources(facts, &Kubelet::Kops(settings), Quantity::gibibytes(100)).allocatable
}

fn resources(parts: &[(&str, &str)]) -> Resources {
    parts.iter().map(|(name, amount)| (*name, amount.parse().unwrap())).collect()
}

#[test]
fn nothing_is_reserved_by_default() {
    check(&[
        ("t3.small", DEFAULT, ["2", "1702Mi", "90Gi", "110"]),
        ("c7g.medium", DEFAULT, ["1", "1702Mi", "90Gi", "110"]),
        ("m5.large", DEFAULT, ["2", "7501Mi", "90Gi", "110"]),
        ("i3en.24xlarge", DEFAULT, ["96", "756649Mi", "90Gi", "110"]),
        ("m5.metal", DEFAULT, ["96", "376802Mi", "90Gi", "110"]),
    ]);
}

#[test]
fn interfaces_limit_pods_only_where_the_network_says_so() {
    check(&[
        ("t3.small", ENI_LIMITED, ["2", "1702Mi", "90Gi", "11"]),
        ("c7g.medium", ENI_LIMITED, ["1", "1702Mi", "90Gi", "8"]),
        ("m5.large", ENI_LIMITED, ["2", "7501Mi", "90Gi", "29"]),
        ("i3en.24xlarge", ENI_LIMITED, ["96", "756649Mi", "90Gi", "110"]),
        // nodeup counts the interfaces of all cards: two on the default one would make 100.
        ("p5.48xlarge", ENI_LIMITED, ["192", "2020116Mi", "90Gi", "110"]),
    ]);
}

#[test]
fn explicit_settings_win() {
    check(&[
        (
            "m5.large",
            |settings| {
                settings.eni_limited = true;
                settings.max_pods = Some(250);
            },
            ["2", "7501Mi", "90Gi", "250"],
        ),
        ("m5.large", |settings| settings.pods_per_core = Some(10), ["2", "7501Mi", "90Gi", "20"]),
        ("m5.large", |settings| settings.pods_per_core = Some(0), ["2", "7501Mi", "90Gi", "110"]),
        (
            "m5.large",
            |settings| {
                settings.kube_reserved = resources(&[("cpu", "100m"), ("memory", "200Mi")]);
                settings.system_reserved = resources(&[("cpu", "50m"), ("ephemeral-storage", "1Gi")]);
            },
            ["1850m", "7301Mi", "89Gi", "110"],
        ),
        (
            "t3.nano",
            |settings| settings.kube_reserved = resources(&[("memory", "4Gi")]),
            ["2", "0", "90Gi", "110"],
        ),
    ]);
}

#[test]
fn thresholds_replace_the_default_as_a_whole() {
    let set = |settings: &mut KubeletSettings, signal: &str, value: &str| {
        settings.eviction_hard.insert(signal.into(), value.into());
    };
    let both: Change = |settings| {
        settings.eviction_hard = [("memory.available", "301Mi"), ("nodefs.available", "25%")]
            .map(|(k, v)| (k.into(), v.into()))
            .into();
    };
    check(&[("m5.large", both, ["2", "7300Mi", "75Gi", "110"])]);
    let memory_only: Change =
        |settings| settings.eviction_hard = [("memory.available".into(), "101Mi".into())].into();
    check(&[("m5.large", memory_only, ["2", "7500Mi", "100Gi", "110"])]);

    let mut settings = KubeletSettings::default();
    set(&mut settings, "memory.available", "100Mi");
    assert!(allocatable::check(&settings).is_ok());
    set(&mut settings, "nodefs.available", "a tenth");
    let error = allocatable::check(&settings).unwrap_err();
    assert!(
        matches!(&error, CatalogError::Threshold { signal, .. } if signal == "nodefs.available"),
        "{error}"
    );
}

#[test]
fn devices_are_counted_and_branch_interfaces_are_not() {
    let rows: [(&str, &[(&str, &str)]); 5] = [
        ("m5.large", &[]),
        ("g4ad.16xlarge", &[("amd.com/gpu", "4")]),
        ("g4dn.12xlarge", &[("nvidia.com/gpu", "4"), ("vpc.amazonaws.com/efa", "1")]),
        ("g6f.large", &[]),
        ("inf2.24xlarge", &[("aws.amazon.com/neuron", "6"), ("aws.amazon.com/neuroncore", "12")]),
    ];
    for (name, expected) in rows {
        let allocatable = allocatable_of(name, DEFAULT);
        let devices: Resources = allocatable.iter().filter(|(name, _)| name.contains('/')).collect();
        assert_eq!(devices, resources(expected), "{name}");
    }
}

#[test]
fn karpenter_settings_override_its_defaults_one_by_one() {
    let rows: [Row; 5] = [
        ("m5.large", DEFAULT, ["1930m", "6903Mi", "89Gi", "29"]),
        // The reserve for pods stays that of the interfaces' limit.
        ("m5.large", |settings| settings.max_pods = Some(110), ["1930m", "6903Mi", "89Gi", "110"]),
        ("m5.large", |settings| settings.pods_per_core = Some(4), ["1930m", "6903Mi", "89Gi", "8"]),
        (
            "m5.large",
            |settings| settings.kube_reserved = resources(&[("memory", "1Gi")]),
            ["1930m", "6453Mi", "89Gi", "29"],
        ),
        (
            "m5.large",
            |settings| settings.eviction_hard = [("memory.available".into(), "200Mi".into())].into(),
            ["1930m", "6803Mi", "89Gi", "29"],
        ),
    ];
    for (index, (name, change, expected)) in rows.into_iter().enumerate() {
        let mut settings = KubeletSettings::default();
        change(&mut settings);
        let facts = embedded::facts_of(name).unwrap();
        let actual =
            allocatable::node_resources(facts, &Kubelet::Karpenter(settings), Quantity::gibibytes(100))
                .allocatable;
        let actual =
            ["cpu", "memory", "ephemeral-storage", "pods"].map(|resource| actual.get(resource).to_string());
        assert_eq!(actual, expected, "row {index}: {name}");
    }
}
