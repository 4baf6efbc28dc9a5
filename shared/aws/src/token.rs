//! The token by which aws-iam-authenticator knows the caller: a presigned STS GetCallerIdentity
//! that carries the name of the cluster in a signed header. Nothing is sent anywhere to make one.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign};
use aws_sigv4::sign::v4;
use aws_smithy_runtime_api::client::identity::Identity;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use url::Url;

use crate::{Aws, Secret};

const PREFIX: &str = "k8s-aws-v1.";
const CLUSTER_HEADER: &str = "x-k8s-aws-id";
/// The server takes a token for 15 minutes from its date, whatever stands in `X-Amz-Expires`, which
/// is 60 by convention.
const LIFETIME: Duration = Duration::from_mins(15);
const EXPIRES_IN: Duration = Duration::from_mins(1);
/// A token is not used in its last minute: the request that carries it takes time, and clocks
/// differ.
const MARGIN: Duration = Duration::from_mins(1);

/// A bearer token for the API server.
#[derive(Clone, Debug)]
pub struct ApiToken {
    /// The token.
    pub token: Secret,
    /// Until when it may be used.
    pub usable_until: SystemTime,
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// There are no credentials to sign with.
    #[error("no AWS credentials were found to sign a token with")]
    Credentials(#[source] Option<CredentialsError>),
    /// The request could not be signed.
    #[error("a token for cluster {cluster} could not be signed")]
    Signing {
        /// The cluster's name.
        cluster: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Aws {
    /// A token for the API server of a cluster, by the name that its authenticator knows (on kOps
    /// the cluster's name).
    pub async fn api_token(&self, cluster: &str) -> Result<ApiToken, TokenError> {
        let provider = self.config.credentials_provider().ok_or(TokenError::Credentials(None))?;
        let credentials =
            provider.provide_credentials().await.map_err(|error| TokenError::Credentials(Some(error)))?;
        presigned_token(&credentials, &self.region, cluster, SystemTime::now())
    }
}

/// A token that is signed as of `now`.
pub fn presigned_token(
    credentials: &Credentials,
    region: &str,
    cluster: &str,
    now: SystemTime,
) -> Result<ApiToken, TokenError> {
    let url = presigned_url(credentials, region, cluster, now)
        .map_err(|source| TokenError::Signing { cluster: cluster.to_owned(), source })?;
    Ok(ApiToken {
        token: Secret::new(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(url))),
        usable_until: now + LIFETIME - MARGIN,
    })
}

fn presigned_url(
    credentials: &Credentials,
    region: &str,
    cluster: &str,
    now: SystemTime,
) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let suffix = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    let mut url =
        Url::parse(&format!("https://sts.{region}.{suffix}/?Action=GetCallerIdentity&Version=2011-06-15"))?;
    let mut settings = SigningSettings::default();
    settings.signature_location = SignatureLocation::QueryParams;
    settings.expires_in = Some(EXPIRES_IN);
    let identity: Identity = credentials.clone().into();
    let parameters = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name("sts")
        .time(now)
        .settings(settings)
        .build()?
        .into();
    let headers = [(CLUSTER_HEADER, cluster)];
    let request = SignableRequest::new("GET", url.as_str(), headers.into_iter(), SignableBody::empty())?;
    let (instructions, _) = sign(request, &parameters)?.into_parts();
    url.query_pairs_mut()
        .extend_pairs(instructions.params().iter().map(|(name, value)| (*name, value.as_ref())));
    Ok(url.into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn the_token_has_the_form_that_the_authenticator_reads() {
        let credentials = Credentials::new("AKIDEXAMPLE", "secret", Some("session/+=".into()), None, "test");
        let made = presigned_token(&credentials, "eu-west-1", "k8s.example.com", at(1_790_000_000)).unwrap();
        let encoded = made.token.expose().strip_prefix(PREFIX).unwrap();
        assert!(!encoded.contains(['=', '+', '/']), "{encoded}");
        let url = Url::parse(&String::from_utf8(URL_SAFE_NO_PAD.decode(encoded).unwrap()).unwrap()).unwrap();
        assert_eq!(
            (url.scheme(), url.host_str(), url.path()),
            ("https", Some("sts.eu-west-1.amazonaws.com"), "/")
        );
        let query: BTreeMap<_, _> = url.query_pairs().into_owned().collect();
        let get = |name: &str| query.get(name).map(String::as_str);
        assert_eq!(get("Action"), Some("GetCallerIdentity"));
        assert_eq!(get("Version"), Some("2011-06-15"));
        assert_eq!(get("X-Amz-Algorithm"), Some("AWS4-HMAC-SHA256"));
        assert_eq!(get("X-Amz-Date"), Some("20260921T141320Z"));
        assert_eq!(get("X-Amz-Expires"), Some("60"));
        assert_eq!(get("X-Amz-SignedHeaders"), Some("host;x-k8s-aws-id"));
        assert_eq!(get("X-Amz-Credential"), Some("AKIDEXAMPLE/20260921/eu-west-1/sts/aws4_request"));
        assert_eq!(get("X-Amz-Security-Token"), Some("session/+="));
        assert_eq!(get("X-Amz-Signature").map(str::len), Some(64));
        assert_eq!(made.usable_until, at(1_790_000_000 + 14 * 60));
    }

    #[test]
    fn the_signature_depends_on_the_cluster() {
        let credentials = Credentials::new("AKIDEXAMPLE", "secret", None, None, "test");
        let token = |cluster| {
            let made = presigned_token(&credentials, "cn-north-1", cluster, at(1_790_000_000)).unwrap();
            made.token.expose().to_owned()
        };
        assert_ne!(token("a.example.com"), token("b.example.com"));
        assert_eq!(token("a.example.com"), token("a.example.com"));
    }
}
