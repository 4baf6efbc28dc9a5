//! A small blocking HTTP client: bytes out, bytes in, and a status that never turns into an error
//! by itself.

use std::io::{BufRead, BufReader};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// The largest body accepted; a thousand instances in EC2's XML are a few megabytes.
const BODY_LIMIT: u64 = 256 << 20;

/// An HTTP client with pooled connections; cheap to clone.
#[derive(Clone, Debug)]
pub struct Http {
    agent: ureq::Agent,
}

/// What a server answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status code.
    pub status: u16,
    /// `X-Amz-Function-Error`, set by the Invoke API when the function failed.
    pub function_error: Option<String>,
    /// The whole body.
    pub body: String,
}

/// An answer as it came, to be handed on.
#[derive(Clone, Debug)]
pub(crate) struct Forwarded {
    /// HTTP status code.
    pub(crate) status: u16,
    /// Its headers, with lower-case names.
    pub(crate) headers: Vec<(String, String)>,
    /// The whole body.
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The body, or an error that names `what` when the status is not 2xx.
    pub fn ok(self, what: &str) -> Result<String> {
        if (200..300).contains(&self.status) {
            return Ok(self.body);
        }
        let start: String = self.body.chars().take(600).collect();
        bail!("{what}: the server answered {}: {start}", self.status)
    }
}

impl Http {
    /// A client for plain HTTP.
    pub fn plain(timeout: Duration) -> Self {
        Self::build(timeout, TlsConfig::default())
    }

    /// A client that trusts only the given certificate authority.
    pub fn trusting(ca_pem: &str, timeout: Duration) -> Result<Self> {
        let ca = Certificate::from_pem(ca_pem.as_bytes()).context("reading the stack's CA certificate")?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&[ca]))
            .unversioned_rustls_crypto_provider(provider)
            .build();
        Ok(Self::build(timeout, tls))
    }

    fn build(timeout: Duration, tls: TlsConfig) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(timeout))
            .max_idle_connections_per_host(16)
            .tls_config(tls)
            .build();
        Self { agent: config.into() }
    }

    /// Sends one request. A body is sent only where there is one.
    pub fn send(
        &self,
        method: &str,
        url: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Result<Answer> {
        let mut request = ureq::http::Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let sent = match body {
            Some(bytes) => self.agent.run(request.body(bytes)?),
            None => self.agent.run(request.body(())?),
        };
        let mut response = sent.with_context(|| format!("{method} {url}"))?;
        let function_error = response
            .headers()
            .get("x-amz-function-error")
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned);
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(BODY_LIMIT).lossy_utf8(true).read_to_string();
        let body = body.with_context(|| format!("reading the answer to {method} {url}"))?;
        Ok(Answer { status, function_error, body })
    }

    /// Hands a request on, and its answer back, byte for byte.
    pub(crate) fn forward(
        &self,
        method: &str,
        url: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Forwarded> {
        let mut request = ureq::http::Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let sent = if body.is_empty() {
            self.agent.run(request.body(())?)
        } else {
            self.agent.run(request.body(body)?)
        };
        let mut response = sent.with_context(|| format!("{method} {url}"))?;
        let header = |(name, value): (&ureq::http::HeaderName, &ureq::http::HeaderValue)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        };
        let headers = response.headers().iter().filter_map(header).collect();
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(BODY_LIMIT).read_to_vec();
        Ok(Forwarded {
            status,
            headers,
            body: body.with_context(|| format!("reading the answer to {method} {url}"))?,
        })
    }

    /// Asks for something that goes on for as long as the server likes, and hands back its lines as
    /// they come.
    pub fn lines(
        &self,
        url: &str,
        headers: &[(&str, &str)],
    ) -> Result<impl Iterator<Item = std::io::Result<String>> + use<>> {
        let mut request = ureq::http::Request::builder().method("GET").uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = self.agent.configure_request(request.body(())?).timeout_global(None).build();
        let response = self.agent.run(request).with_context(|| format!("GET {url}"))?;
        if response.status() != 200 {
            bail!("GET {url}: the server answered {}", response.status());
        }
        Ok(BufReader::new(response.into_body().into_reader()).lines())
    }
}
