//! The stack of `template.yaml` whose roles are looked at.

use std::collections::BTreeMap;

use outrigger_stack::{ACCOUNT, CLUSTER, Deployed, Need, Options, REGION, Resources, STATE_BUCKET, Template};

pub(crate) const TABLE: &str = "outrigger-Table-1";
pub(crate) const CATALOG: &str = "outrigger-catalogbucket-1";
pub(crate) const BUS: &str = "default";
/// A key of the account's own.
pub(crate) const KEY: &str = "arn:aws:kms:us-east-1:123456789012:key/k1";

/// Every function of the template.
pub(crate) const FUNCTIONS: [&str; 5] = ["disrupt", "interrupt", "lifecycle", "provision", "refresh"];

/// The template with these parameters beside those that have no default.
pub(crate) fn deployed(parameters: &[(&str, &str)]) -> Deployed {
    let template = Template::of_checkout(&Options::default().checkout).unwrap();
    let required =
        [("ClusterName", CLUSTER), ("StateStoreBucket", STATE_BUCKET), ("ApiServer", "https://api")];
    let all =
        required.iter().chain(parameters).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    template.deploy(&all.collect(), resources()).unwrap()
}

/// With everything that a parameter adds to a role.
pub(crate) fn with_keys() -> Deployed {
    deployed(&[
        ("ApiTokenParameter", "/clusters/token"),
        ("ApiTokenKey", KEY),
        ("StateStoreKey", KEY),
        ("VolumeKeys", KEY),
    ])
}

fn resources() -> Resources {
    let named = |pairs: [(&str, String); 4]| -> BTreeMap<String, String> {
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    };
    let arn = |service: &str, within: &str| format!("arn:aws:{service}:{REGION}:{ACCOUNT}:{within}");
    Resources {
        names: named([
            ("Table", TABLE.into()),
            ("CatalogBucket", CATALOG.into()),
            ("Interruptions", queue_url("interruptions")),
            ("DeadInterruptions", queue_url("dead-interruptions")),
        ]),
        arns: named([
            ("Table", arn("dynamodb", &format!("table/{TABLE}"))),
            ("CatalogBucket", format!("arn:aws:s3:::{CATALOG}")),
            ("Interruptions", arn("sqs", "interruptions")),
            ("DeadInterruptions", arn("sqs", "dead-interruptions")),
        ]),
    }
}

pub(crate) fn queue_url(name: &str) -> String {
    format!("https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{name}")
}

/// What AWS itself asks for with a function's rights, while a call of the function is carried out:
/// functions, and the need. None of it is there unless a parameter asks for it.
pub(crate) fn behind_the_calls() -> Vec<(&'static [&'static str], Need)> {
    let all_but_refresh: &[&str] = &["disrupt", "interrupt", "lifecycle", "provision"];
    let through = |action: &str, service: &str| {
        Need::new(format!("kms:{action}"), KEY)
            .with("kms:ViaService", format!("{service}.{REGION}.amazonaws.com"))
    };
    let token = format!("arn:aws:ssm:{REGION}:{ACCOUNT}:parameter/clusters/token");
    let mut needs: Vec<(&[&str], Need)> = vec![
        (all_but_refresh, Need::new("ssm:GetParameter", token)),
        (all_but_refresh, through("Decrypt", "ssm")),
        (&["disrupt", "provision"], through("Decrypt", "s3")),
        (&["provision"], through("CreateGrant", "ec2").with("kms:GrantIsForAWSResource", "true")),
    ];
    let of_volumes = [
        "Decrypt",
        "DescribeKey",
        "Encrypt",
        "GenerateDataKey",
        "GenerateDataKeyWithoutPlaintext",
        "ReEncryptFrom",
        "ReEncryptTo",
    ];
    needs.extend(of_volumes.map(|action| (&["provision"][..], through(action, "ec2"))));
    needs
}
