//! Configuration -> the three ports on real servers.

use std::error::Error;
use std::sync::Arc;

use anyhow::Context as _;
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use outrigger_aws::{Aws, AwsCloud, AwsConfig, DynamoLedger};
use outrigger_engine::ports::{Clock, Cluster, Ports};
use outrigger_kubernetes::{Access, KubernetesCluster, Token, TokenSource};
use tokio::sync::OnceCell;

use crate::config::{Auth, Config};
use crate::limits::Limits;

/// Connections that every invocation of a process shares.
pub(crate) struct Connections {
    aws: Aws,
    cloud: AwsCloud,
    cluster_and_ledger: OnceCell<ClusterAndLedger>,
    limits: Limits,
}

/// The cluster, and what its ledger remembers of it.
pub(crate) struct ClusterAndLedger {
    pub(crate) cluster: KubernetesCluster,
    pub(crate) ledger: DynamoLedger,
}

impl Connections {
    /// Connects to AWS. Nothing is called.
    pub(crate) async fn open(config: &Config, limits: Limits) -> anyhow::Result<Self> {
        let aws = Aws::load(None, limits.aws).await;
        let settings = AwsConfig {
            cluster: config.cluster.clone(),
            state_store: Some(config.state_store.parse()?),
            catalog: Some(config.catalog.parse()?),
            event_bus: Some(config.event_bus.clone()),
        };
        let cloud = AwsCloud::new(aws.clone(), settings);
        Ok(Self { aws, cloud, cluster_and_ledger: OnceCell::new(), limits })
    }

    /// AWS, for what stands behind no port.
    pub(crate) const fn aws(&self) -> &Aws {
        &self.aws
    }

    /// EC2 and what belongs to it, for functions that need nothing else.
    pub(crate) const fn cloud(&self) -> &AwsCloud {
        &self.cloud
    }

    /// The ports. The first time the API server is called, for the cluster's uid, which is the
    /// ledger's partition; a connection that could not be made is tried again.
    pub(crate) async fn ports<'a>(
        &'a self,
        config: &Config,
        clock: &'a dyn Clock,
    ) -> anyhow::Result<Ports<'a>> {
        let connections = self.cluster_and_ledger(config).await?;
        Ok(Ports { cluster: &connections.cluster, cloud: &self.cloud, ledger: &connections.ledger, clock })
    }

    /// The cluster and its ledger, as [`Connections::ports`] has them.
    pub(crate) async fn cluster_and_ledger(&self, config: &Config) -> anyhow::Result<&ClusterAndLedger> {
        self.cluster_and_ledger.get_or_try_init(|| Box::pin(self.connect(config))).await
    }

    async fn connect(&self, config: &Config) -> anyhow::Result<ClusterAndLedger> {
        let cluster = connect_cluster(config, &self.aws)?.with_call_limit(self.limits.cluster);
        let uid = cluster.uid().await?;
        let ledger = DynamoLedger::new(&self.aws, &config.table, &config.cluster, uid);
        Ok(ClusterAndLedger { cluster, ledger })
    }
}

fn connect_cluster(config: &Config, aws: &Aws) -> anyhow::Result<KubernetesCluster> {
    let server = config.api_server.clone();
    let tokens: Arc<dyn TokenSource> = match server.auth {
        Auth::Iam { cluster_id } => Arc::new(Authenticator { aws: aws.clone(), cluster_id }),
        Auth::TokenParameter(name) => Arc::new(Stored { aws: aws.clone(), name }),
    };
    let access =
        Access { server: server.url, ca_pem: server.ca, tls_server_name: server.server_name, tokens };
    KubernetesCluster::connect(access).context("OUTRIGGER_API_SERVER and OUTRIGGER_API_CA say where it is")
}

/// Tokens for aws-iam-authenticator: our own role's signature, made here without a call.
struct Authenticator {
    aws: Aws,
    cluster_id: String,
}

#[async_trait]
impl TokenSource for Authenticator {
    async fn token(&self) -> Result<Token, Box<dyn Error + Send + Sync>> {
        let made = self.aws.api_token(&self.cluster_id).await?;
        Ok(Token::new(made.token.expose(), made.usable_until.try_into()?))
    }
}

/// A token that somebody keeps in SSM. It is read again now and then, so that it may be rotated
/// there.
struct Stored {
    aws: Aws,
    name: String,
}

/// How long a stored token is used before it is read again.
const STORED_TOKEN_LIFETIME: SignedDuration = SignedDuration::from_mins(10);

#[async_trait]
impl TokenSource for Stored {
    async fn token(&self) -> Result<Token, Box<dyn Error + Send + Sync>> {
        let secret = self.aws.secret(&self.name).await?;
        Ok(Token::new(secret.expose().trim(), Timestamp::now().checked_add(STORED_TOKEN_LIFETIME)?))
    }
}
