//! What the tests against real servers share: configuration, a table, claims, and a proxy that
//! loses answers.

pub(crate) mod colliding_proxy;
pub(crate) mod lossy_proxy;
pub(crate) mod partial_proxy;
pub(crate) mod stand_in;

use std::collections::BTreeMap;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, ScalarAttributeType,
};
use jiff::Timestamp;
use outrigger_engine::ports::PreparedLaunch;
use outrigger_model::{FleetRequest, Intent, IntentState, NodeClaim, NodeClaimStatus, fixtures};

/// The server that an environment variable names. The test runner starts it; without it these tests
/// cannot pass.
pub(crate) fn server(variable: &str) -> String {
    std::env::var(variable)
        .unwrap_or_else(|_| panic!("{variable} is not set; run these tests with cargo xtask test"))
}

/// A configuration for a server on this machine.
pub(crate) async fn config(endpoint: &str) -> SdkConfig {
    aws_config::defaults(BehaviorVersion::latest())
        .endpoint_url(endpoint)
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("AKIDTEST", "secret", None, None, "test"))
        .retry_config(RetryConfig::standard().with_max_attempts(3))
        .timeout_config(TimeoutConfig::builder().operation_timeout(Duration::from_mins(1)).build())
        .load()
        .await
}

/// A table of its own, keyed as template.yaml keys the real one.
pub(crate) async fn table(config: &SdkConfig, name: &str) -> String {
    let client = aws_sdk_dynamodb::Client::new(config);
    let name = format!("{name}-{}", Timestamp::now().as_nanosecond());
    let attribute = |name: &str| {
        let attribute =
            AttributeDefinition::builder().attribute_name(name).attribute_type(ScalarAttributeType::S);
        attribute.build().unwrap()
    };
    let key =
        |name: &str, kind| KeySchemaElement::builder().attribute_name(name).key_type(kind).build().unwrap();
    let instances = GlobalSecondaryIndex::builder()
        .index_name("instances")
        .key_schema(key("instance", KeyType::Hash))
        .key_schema(key("pk", KeyType::Range))
        .projection(Projection::builder().projection_type(ProjectionType::KeysOnly).build())
        .build()
        .unwrap();
    client
        .create_table()
        .table_name(&name)
        .attribute_definitions(attribute("pk"))
        .attribute_definitions(attribute("sk"))
        .attribute_definitions(attribute("instance"))
        .key_schema(key("pk", KeyType::Hash))
        .key_schema(key("sk", KeyType::Range))
        .global_secondary_indexes(instances)
        .billing_mode(BillingMode::PayPerRequest)
        .send()
        .await
        .unwrap();
    name
}

/// Seconds after some instant.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).unwrap()
}

pub(crate) fn claim(name: &str, intent: &str) -> NodeClaim {
    NodeClaim {
        name: name.into(),
        intent: intent.into(),
        created_at: at(0),
        spec: fixtures::spec("general"),
        status: NodeClaimStatus::default(),
        ..fixtures::claim()
    }
}

pub(crate) fn request(intent: &str, count: u32) -> FleetRequest {
    FleetRequest {
        token: format!("{intent}.1"),
        tags: BTreeMap::from([("outrigger.dev/intent".to_owned(), intent.to_owned())]),
        ..fixtures::request(count)
    }
}

/// A launch of `count` claims named `<intent>-<n>`.
pub(crate) fn launch(intent: &str, generation: u64, count: u32) -> PreparedLaunch {
    let claims: Vec<_> = (0..count).map(|index| claim(&format!("{intent}-{index:03}"), intent)).collect();
    PreparedLaunch {
        generation,
        intent: Intent {
            id: intent.into(),
            request: request(intent, count),
            claims: claims.iter().map(|claim| claim.name.clone()).collect(),
            prepared_at: at(1),
            ..fixtures::intent(IntentState::Prepared, 0)
        },
        claims,
    }
}
