//! Calls to the API server: a token, a time limit, and repetition where it does no harm.

use std::error::Error;
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use jiff::SignedDuration;
use kube::core::WatchEvent;
use outrigger_engine::ports::ClusterError;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::KubernetesCluster;
use super::clock::ServerClock;
use super::token::Tokens;

/// A token takes half of a call's time at most; the rest is the call's.
const SHARE_OF_TOKEN: u32 = 2;
/// How often a call that may be repeated is sent at most.
const MAX_TRIES: u32 = 3;
/// The pause before the first repetition; each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// A server that asks for more patience than this gets its answer passed on instead.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

type Cause = Box<dyn Error + Send + Sync>;

/// A call to the API server.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// In words, as `list pods`.
    pub(super) attempted: String,
    method: Method,
    path: String,
    content_type: Option<&'static str>,
    accepts: &'static str,
    body: Vec<u8>,
    repeatable: bool,
}

impl Call {
    /// The same with an answer in another form.
    pub(super) fn accepting(self, accepts: &'static str) -> Self {
        Self { accepts, ..self }
    }

    /// A read.
    pub(super) fn get(attempted: impl Into<String>, path: impl Into<String>) -> Self {
        Self::new(attempted, Method::GET, path, None, Vec::new(), true)
    }

    /// A change that is the same however often it is made.
    pub(super) fn patch(
        attempted: impl Into<String>,
        path: impl Into<String>,
        kind: &'static str,
        body: &Value,
    ) -> Self {
        Self::new(attempted, Method::PATCH, path, Some(kind), body.to_string().into_bytes(), true)
    }

    /// A new object.
    pub(super) fn create(attempted: impl Into<String>, path: impl Into<String>, body: &Value) -> Self {
        let body = body.to_string().into_bytes();
        Self::new(attempted, Method::POST, path, Some("application/json"), body, false)
    }

    /// A request that does no harm when it is made again.
    pub(super) fn post(attempted: impl Into<String>, path: impl Into<String>, body: &Value) -> Self {
        Self { repeatable: true, ..Self::create(attempted, path, body) }
    }

    /// The end of an object, with DeleteOptions.
    pub(super) fn delete(attempted: impl Into<String>, path: impl Into<String>, options: &Value) -> Self {
        let body = options.to_string().into_bytes();
        Self::new(attempted, Method::DELETE, path, Some("application/json"), body, true)
    }

    fn new(
        attempted: impl Into<String>,
        method: Method,
        path: impl Into<String>,
        content_type: Option<&'static str>,
        body: Vec<u8>,
        repeatable: bool,
    ) -> Self {
        let (attempted, path, accepts) = (attempted.into(), path.into(), "application/json");
        Self { attempted, method, path, content_type, accepts, body, repeatable }
    }
}

/// JSON Patch, which may test before it changes.
pub(super) const JSON_PATCH: &str = "application/json-patch+json";
/// JSON Merge Patch, under which lists are replaced whole.
pub(super) const MERGE_PATCH: &str = "application/merge-patch+json";
/// Server-side apply.
pub(super) const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// A list as rows, as kubectl prints it.
pub(super) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// What a watch yields.
pub(super) type Events = BoxStream<'static, Result<WatchEvent<Value>, kube::Error>>;

/// A connection to the API server.
pub(super) struct Transport {
    client: kube::Client,
    server: String,
    tokens: Option<Tokens>,
    clock: ServerClock,
    /// How long one call may take, its token and its repetitions counted, and its answer read.
    call_limit: Duration,
}

/// No answer within the time that a call may take.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {} s", .0.as_secs_f32())]
struct TimedOut(Duration);

/// No token to show.
#[derive(Debug, thiserror::Error)]
#[error("no token for it could be had")]
struct NoToken(#[source] Cause);

enum Attempt {
    Answer(StatusCode, HeaderMap, Vec<u8>),
    /// The connection broke, or was never made; trying again may help.
    Broken(kube::Error),
}

impl Transport {
    pub(super) fn new(client: kube::Client, server: impl Into<String>, tokens: Option<Tokens>) -> Self {
        let (server, clock) = (server.into(), ServerClock::default());
        Self { client, server, tokens, clock, call_limit: KubernetesCluster::CALL_LIMIT }
    }

    pub(super) const fn set_call_limit(&mut self, limit: Duration) {
        self.call_limit = limit;
    }

    /// By how much the server's clock is ahead of ours, as far as its answers tell.
    pub(super) fn clock_difference(&self) -> Option<SignedDuration> {
        self.clock.difference()
    }

    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// Makes a call and returns the body of its answer; an answer that says no is
    /// [`ClusterError::Refused`].
    pub(super) async fn send(&self, call: &Call) -> Result<Vec<u8>, ClusterError> {
        self.in_time(call, self.send_until_answered(call)).await
    }

    async fn in_time<T>(
        &self,
        call: &Call,
        answer: impl Future<Output = Result<T, ClusterError>>,
    ) -> Result<T, ClusterError> {
        let in_time = timeout(self.call_limit, answer).await;
        in_time.unwrap_or_else(|_| Err(self.unreachable(call, TimedOut(self.call_limit))))
    }

    async fn send_until_answered(&self, call: &Call) -> Result<Vec<u8>, ClusterError> {
        let mut renewed = false;
        let mut tries = 1;
        loop {
            let authorization = self.authorization(call).await?;
            let outcome = self.attempt(call, authorization.clone()).await?;
            if let (Attempt::Answer(StatusCode::UNAUTHORIZED, ..), false, Some(sent)) =
                (&outcome, renewed, &authorization)
            {
                renewed = true;
                self.forget(sent).await;
                continue;
            }
            match pause(&outcome, tries).filter(|_| call.repeatable && tries < MAX_TRIES) {
                Some(pause) => {
                    tracing::debug!(
                        attempted = call.attempted,
                        tries,
                        ?pause,
                        "the API server is asked again"
                    );
                    sleep(pause).await;
                    tries += 1;
                }
                None => return self.conclude(call, outcome),
            }
        }
    }

    /// Opens a watch. A 401 is answered with a new token, once.
    pub(super) async fn watch(&self, call: &Call) -> Result<Events, ClusterError> {
        self.in_time(call, self.watch_opened(call)).await
    }

    async fn watch_opened(&self, call: &Call) -> Result<Events, ClusterError> {
        let mut renewed = false;
        loop {
            let authorization = self.authorization(call).await?;
            let request = self.request(call, authorization.clone())?;
            match self.client.request_events(request).await {
                Ok(events) => return Ok(events.boxed()),
                Err(kube::Error::Api(status)) => match &authorization {
                    Some(sent) if status.code == 401 && !renewed => {
                        renewed = true;
                        self.forget(sent).await;
                    }
                    _ => return Err(refused(call, status.code, status.message.clone())),
                },
                Err(error) => return Err(self.unreachable(call, cause(error))),
            }
        }
    }

    /// No answer came.
    fn unreachable(&self, call: &Call, source: impl Into<Cause>) -> ClusterError {
        let source = source.into();
        ClusterError::Unreachable { server: self.server.clone(), attempted: call.attempted.clone(), source }
    }

    async fn attempt(
        &self,
        call: &Call,
        authorization: Option<HeaderValue>,
    ) -> Result<Attempt, ClusterError> {
        let request = self.request(call, authorization)?;
        let response = match self.client.send(request.map(kube::client::Body::from)).await {
            Ok(response) => response,
            Err(error) => return Ok(Attempt::Broken(error)),
        };
        let (parts, body) = response.into_parts();
        self.clock.learn(&parts.headers);
        Ok(match body.collect_bytes().await {
            Ok(bytes) => Attempt::Answer(parts.status, parts.headers, bytes.into()),
            Err(error) => Attempt::Broken(error),
        })
    }

    fn request(
        &self,
        call: &Call,
        authorization: Option<HeaderValue>,
    ) -> Result<Request<Vec<u8>>, ClusterError> {
        let mut request =
            Request::builder().method(&call.method).uri(&call.path).header(ACCEPT, call.accepts);
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        if let Some(content_type) = call.content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        request.body(call.body.clone()).map_err(|error| self.unreachable(call, error))
    }

    async fn authorization(&self, call: &Call) -> Result<Option<HeaderValue>, ClusterError> {
        let Some(tokens) = &self.tokens else { return Ok(None) };
        let limit = self.call_limit / SHARE_OF_TOKEN;
        match timeout(limit, tokens.header()).await {
            Ok(Ok(header)) => Ok(Some(header)),
            Ok(Err(error)) => Err(self.unreachable(call, NoToken(error))),
            Err(_) => Err(self.unreachable(call, NoToken(Box::new(TimedOut(limit))))),
        }
    }

    async fn forget(&self, sent: &HeaderValue) {
        if let Some(tokens) = &self.tokens {
            tokens.forget(sent).await;
        }
    }

    fn conclude(&self, call: &Call, outcome: Attempt) -> Result<Vec<u8>, ClusterError> {
        match outcome {
            Attempt::Answer(status, _, body) if status.is_success() => Ok(body),
            Attempt::Answer(status, _, body) => Err(refused(call, status.as_u16(), words(status, &body))),
            Attempt::Broken(error) => Err(self.unreachable(call, cause(error))),
        }
    }
}

pub(super) fn refused(call: &Call, status: u16, message: String) -> ClusterError {
    ClusterError::Refused { attempted: call.attempted.clone(), status, message }
}

/// The cause itself; kube's own words only repeat it.
pub(super) fn cause(error: kube::Error) -> Cause {
    match error {
        kube::Error::Service(cause) => cause,
        kube::Error::HyperError(cause) => cause.into(),
        other => other.into(),
    }
}

/// How long to wait before asking again; `None` where asking again cannot help.
fn pause(outcome: &Attempt, tries: u32) -> Option<Duration> {
    let doubled = FIRST_PAUSE * 2_u32.saturating_pow(tries - 1);
    match outcome {
        Attempt::Answer(status, headers, _)
            if *status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() =>
        {
            let asked = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
            let pause = asked.map_or(doubled, Duration::from_secs);
            (pause <= LONGEST_PAUSE).then_some(pause)
        }
        Attempt::Answer(..) => None,
        Attempt::Broken(_) => Some(doubled),
    }
}

/// What an answer says: the message of a Status and its causes, or the start of whatever it is.
fn words(status: StatusCode, body: &[u8]) -> String {
    let object: Option<Value> = serde_json::from_slice(body).ok();
    if let Some(message) = object.as_ref().and_then(|object| object.get("message")).and_then(Value::as_str) {
        let causes = object.as_ref().and_then(|object| object.pointer("/details/causes")?.as_array());
        let causes = causes.into_iter().flatten().filter_map(|cause| cause.get("message")?.as_str());
        let news = causes.filter(|cause| !message.contains(cause));
        return std::iter::once(message).chain(news).collect::<Vec<_>>().join(" ");
    }
    let text = String::from_utf8_lossy(body);
    // A path that no API serves is answered with "404 page not found".
    let text = text.trim().trim_start_matches(status.as_str()).trim_start();
    text.chars().take(200).collect()
}
