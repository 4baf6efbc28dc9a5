//! Tokens of service accounts: made by the API server, and judged by it.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use outrigger_engine::ports::ClusterError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::token::Token;
use super::transport::{Call, Transport};
use super::{parse, unreadable};

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccount {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ServiceAccount {
    /// The user that its tokens are of, as Kubernetes names it.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

impl fmt::Display for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What a token says of itself. Nobody has checked its signature.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TokenClaims {
    /// Whose it is, as `system:serviceaccount:kube-system:outrigger`.
    #[serde(rename = "sub")]
    pub user: String,
    /// Until when it is good; a token of a Secret does not end.
    #[serde(rename = "exp", default, deserialize_with = "seconds")]
    pub expires_at: Option<Timestamp>,
}

impl TokenClaims {
    /// What a token says; `None` where it is none that a service account has (RFC 7519).
    pub fn read(token: &str) -> Option<Self> {
        let mut parts = token.trim().split('.');
        let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
        let claims = URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
        serde_json::from_slice(&claims).ok().filter(|_| parts.next().is_none())
    }
}

fn seconds<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let seconds = i64::deserialize(deserializer)?;
    Timestamp::from_second(seconds).map(Some).map_err(serde::de::Error::custom)
}

/// A new token, which is good for as long as it was asked for or for less.
pub(super) async fn issue(
    transport: &Transport,
    account: &ServiceAccount,
    life: Duration,
) -> Result<Token, ClusterError> {
    let ServiceAccount { namespace, name } = account;
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": { "expirationSeconds": life.as_secs() },
    });
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
    let call = Call::post(format!("make a token for the service account {account}"), path, &request);
    let answer: Value = parse(&call, &transport.send(&call).await?)?;
    let text = |field: &str| answer.pointer(field).and_then(Value::as_str);
    let expires_at = text("/status/expirationTimestamp").and_then(|time| time.parse().ok());
    match (text("/status/token"), expires_at) {
        (Some(token), Some(expires_at)) => Ok(Token::new(token, expires_at)),
        _ => Err(unreadable(call.attempted, "the answer has no token, or not until when it is good".into())),
    }
}

/// Whether the API server takes a token. One of an account that was deleted is refused before its
/// time.
pub(super) async fn is_accepted(transport: &Transport, token: &str) -> Result<bool, ClusterError> {
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": { "token": token.trim() },
    });
    let call = Call::post("review a token", "/apis/authentication.k8s.io/v1/tokenreviews", &review);
    let answer: Value = parse(&call, &transport.send(&call).await?)?;
    Ok(answer.pointer("/status/authenticated").and_then(Value::as_bool).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &Value) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    #[test]
    fn a_token_says_whose_it_is_and_until_when() {
        let account = ServiceAccount { namespace: "kube-system".into(), name: "outrigger".into() };
        let bound = TokenClaims::read(&token(&json!({"sub": account.user(), "exp": 1_800_000_000})));
        let until = Timestamp::from_second(1_800_000_000).ok();
        assert_eq!(bound, Some(TokenClaims { user: account.user(), expires_at: until }));
        let of_secret = TokenClaims::read(&format!("{}\n", token(&json!({"sub": account.user()}))));
        assert_eq!(of_secret, Some(TokenClaims { user: account.user(), expires_at: None }));
    }

    #[test]
    fn other_secrets_are_no_tokens() {
        let four_parts = format!("{}.more", token(&json!({"sub": "a"})));
        let wrong_time = token(&json!({"sub": "a", "exp": "soon"}));
        for text in ["", "hunter2", "a.b.c", "a.e30.c", &four_parts, &wrong_time, &token(&json!({}))] {
            assert_eq!(TokenClaims::read(text), None, "{text}");
        }
    }
}
