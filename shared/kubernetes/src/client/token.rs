//! Bearer tokens: where they come from, and one of them kept until it is due.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use http::HeaderValue;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex;

/// Makes tokens for the API server: aws-iam-authenticator's, a web identity's, or one that is
/// stored somewhere.
#[async_trait]
pub trait TokenSource: Send + Sync {
    /// A new token. It is asked for when the last one has used up four fifths of its life, and once
    /// when the server answers 401.
    async fn token(&self) -> Result<Token, Box<dyn Error + Send + Sync>>;
}

/// A bearer token, which neither `Debug` nor a log shows.
#[derive(Clone)]
pub struct Token {
    secret: String,
    expires_at: Timestamp,
}

impl Token {
    /// A token that is good until `expires_at`.
    pub fn new(secret: impl Into<String>, expires_at: Timestamp) -> Self {
        Self { secret: secret.into(), expires_at }
    }

    /// The token itself.
    pub fn expose(&self) -> &str {
        &self.secret
    }

    /// Until when it is good.
    pub const fn expires_at(&self) -> Timestamp {
        self.expires_at
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

/// The present token of a source.
pub(super) struct Tokens {
    source: Arc<dyn TokenSource>,
    held: Mutex<Option<Held>>,
}

struct Held {
    header: HeaderValue,
    renew_at: Timestamp,
    expires_at: Timestamp,
}

/// A token that no header can carry.
#[derive(Debug, thiserror::Error)]
#[error("the token has characters that a header cannot carry")]
struct Unusable;

impl Tokens {
    pub(super) fn new(source: Arc<dyn TokenSource>) -> Self {
        Self { source, held: Mutex::new(None) }
    }

    /// The Authorization header. While the present token is good, failing to renew it is no reason
    /// to stop.
    pub(super) async fn header(&self) -> Result<HeaderValue, Box<dyn Error + Send + Sync>> {
        let mut held = self.held.lock().await;
        let now = Timestamp::now();
        if let Some(held) = held.as_ref().filter(|held| now < held.renew_at) {
            return Ok(held.header.clone());
        }
        match self.source.token().await {
            Ok(token) => {
                let new = Held::new(&token, now)?;
                Ok(held.insert(new).header.clone())
            }
            Err(error) => match held.as_ref().filter(|held| now < held.expires_at) {
                Some(held) => {
                    tracing::warn!(%error, "the token for the API server could not be renewed yet");
                    Ok(held.header.clone())
                }
                None => Err(error),
            },
        }
    }

    /// Lets go of the token that was sent as `refused`, unless a newer one has taken its place
    /// already.
    pub(super) async fn forget(&self, refused: &HeaderValue) {
        let mut held = self.held.lock().await;
        if held.as_ref().is_some_and(|held| held.header == *refused) {
            *held = None;
        }
    }
}

impl Held {
    fn new(token: &Token, now: Timestamp) -> Result<Self, Unusable> {
        let mut header = HeaderValue::try_from(format!("Bearer {}", token.secret)).map_err(|_| Unusable)?;
        header.set_sensitive(true);
        let life = token.expires_at.duration_since(now).max(SignedDuration::ZERO);
        let renew_at = now.checked_add(life / 5 * 4).unwrap_or(now);
        Ok(Self { header, renew_at, expires_at: token.expires_at })
    }
}
