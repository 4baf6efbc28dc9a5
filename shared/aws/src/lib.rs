//! AWS behind Outrigger's ports: [`AwsCloud`] on EC2, S3, SSM, Pricing and EventBridge, and
//! [`DynamoLedger`] on DynamoDB. Everything that talks to AWS goes through one [`Aws`], so
//! timeouts, retries and endpoints are set once.

#[cfg(feature = "command")]
mod adopt;
mod caller;
mod catalog;
mod client;
mod cloud;
mod dead_letters;
mod ec2;
mod errors;
mod events;
#[cfg(feature = "command")]
mod functions;
mod hash;
mod interruption;
mod ledger;
mod lock;
mod pricing;
mod queue;
mod s3;
mod ssm;
mod state_store;
mod survey;
mod token;

pub use client::Aws;
pub use cloud::{AwsCloud, AwsConfig};
pub use dead_letters::DeadLetters;
pub use interruption::{MalformedEvent, decode_event};
pub use ledger::DynamoLedger;
pub use outrigger_kops::node_role;
pub use queue::Queue;
pub use s3::S3Location;
pub use ssm::Secret;
pub use token::{ApiToken, TokenError, presigned_token};
