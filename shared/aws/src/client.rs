//! One set of clients for everything that Outrigger asks of AWS.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{AppName, BehaviorVersion, Region, SdkConfig};
use outrigger_engine::{Rate, Rates};

use crate::lock::lock;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const ATTEMPTS: u32 = 3;

/// Clients of the services that Outrigger uses, with the same timeouts and retries.
///
/// Endpoints follow the SDK's environment variables `AWS_ENDPOINT_URL` and
/// `AWS_ENDPOINT_URL_<SERVICE>`.
#[derive(Clone, Debug)]
pub struct Aws {
    pub(crate) config: SdkConfig,
    pub(crate) region: String,
    ec2: aws_sdk_ec2::Client,
    rates: Rates,
    pub(crate) dynamodb: aws_sdk_dynamodb::Client,
    s3: aws_sdk_s3::Client,
    /// Clients for buckets that lie in another region: kOps' state store often does.
    s3_elsewhere: Arc<Mutex<BTreeMap<String, aws_sdk_s3::Client>>>,
    pub(crate) ssm: aws_sdk_ssm::Client,
    pub(crate) events: aws_sdk_eventbridge::Client,
}

impl Aws {
    /// How long one operation may take where nobody is in a hurry, all of its attempts together.
    pub const CALL_LIMIT: Duration = Duration::from_secs(20);

    /// Reads credentials, region and endpoints from the environment, as in Lambda. `region` goes
    /// before the environment's; without either it is us-east-1. An operation may take
    /// `call_limit`, all of its attempts together.
    pub async fn load(region: Option<String>, call_limit: Duration) -> Self {
        let mut loader = aws_config::defaults(BehaviorVersion::latest())
            .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS))
            .timeout_config(
                TimeoutConfig::builder()
                    .connect_timeout(CONNECT_TIMEOUT)
                    .operation_timeout(call_limit)
                    .build(),
            );
        if let Ok(name) = AppName::new("outrigger") {
            loader = loader.app_name(name);
        }
        if let Some(region) = region {
            loader = loader.region(Region::new(region));
        }
        Self::new(loader.load().await)
    }

    /// Clients from a configuration that somebody else made.
    pub fn new(config: SdkConfig) -> Self {
        let region = config.region().map_or("us-east-1", Region::as_ref).to_owned();
        let config = config.into_builder().region(Region::new(region.clone())).build();
        // A server that stands in for S3 has no host name for each bucket.
        let own_endpoint =
            config.endpoint_url().is_some() || std::env::var_os("AWS_ENDPOINT_URL_S3").is_some();
        let s3 = aws_sdk_s3::config::Builder::from(&config).force_path_style(own_endpoint).build();
        Self {
            region,
            ec2: aws_sdk_ec2::Client::new(&config),
            rates: Rates::new(),
            dynamodb: aws_sdk_dynamodb::Client::new(&config),
            s3: aws_sdk_s3::Client::from_conf(s3),
            s3_elsewhere: Arc::default(),
            ssm: aws_sdk_ssm::Client::new(&config),
            events: aws_sdk_eventbridge::Client::new(&config),
            config,
        }
    }

    /// The region.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// EC2, as soon as one more request of this kind may be sent.
    pub(crate) async fn ec2(&self, rate: Rate) -> &aws_sdk_ec2::Client {
        self.rates.ready(rate).await;
        &self.ec2
    }

    /// Waits until one more page of a list may be asked for.
    pub(crate) async fn next_page(&self) {
        self.rates.ready(Rate::Describe).await;
    }

    /// The client for a bucket.
    pub(crate) fn s3(&self, bucket: &str) -> aws_sdk_s3::Client {
        let elsewhere = lock(&self.s3_elsewhere);
        elsewhere.get(bucket).unwrap_or(&self.s3).clone()
    }

    /// Remembers in which region a bucket lies. `false` when that was known, so that nobody goes in
    /// circles.
    pub(crate) fn bucket_is_in(&self, bucket: &str, region: &str) -> bool {
        let region = Region::new(region.to_owned());
        if self.s3(bucket).config().region() == Some(&region) {
            return false;
        }
        let config = self.s3.config().to_builder().region(region).build();
        let mut elsewhere = lock(&self.s3_elsewhere);
        elsewhere.insert(bucket.to_owned(), aws_sdk_s3::Client::from_conf(config));
        true
    }
}
