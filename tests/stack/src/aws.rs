//! AWS's wire protocols as far as the stack speaks them: EC2's query API, the JSON services, S3's
//! objects.
//!
//! The stand-ins check no signature; they read the service and the region from its credential
//! scope.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::http::{Answer, Http};

/// The only region of the stack.
pub const REGION: &str = "us-east-1";
/// The account number that moto gives to every caller.
pub const ACCOUNT: &str = "123456789012";
/// Access key id and secret of every caller.
pub(crate) const ACCESS_KEY: &str = "stack";

/// A client for one endpoint that answers as AWS; cheap to clone.
#[derive(Clone, Debug)]
pub struct Aws {
    endpoint: String,
    http: Http,
}

impl Aws {
    /// A client for the server at `endpoint`, such as `http://127.0.0.1:5000`.
    pub fn new(endpoint: &str) -> Self {
        let http = Http::plain(Duration::from_mins(1));
        Self { endpoint: endpoint.trim_end_matches('/').to_owned(), http }
    }

    /// Calls an action of EC2 and returns its XML.
    pub fn ec2(&self, action: &str, parameters: &[(String, String)]) -> Result<String> {
        self.query("ec2", "2016-11-15", action, parameters)
    }

    /// Calls an action of Auto Scaling and returns its XML.
    pub fn auto_scaling(&self, action: &str, parameters: &[(String, String)]) -> Result<String> {
        self.query("autoscaling", "2011-01-01", action, parameters)
    }

    fn query(
        &self,
        service: &str,
        version: &str,
        action: &str,
        parameters: &[(String, String)],
    ) -> Result<String> {
        let mut form = vec![format!("Action={action}"), format!("Version={version}")];
        form.extend(parameters.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value))));
        let form = form.join("&");
        let content = ("content-type", "application/x-www-form-urlencoded; charset=utf-8");
        let answer = self.send("POST", "/", service, &[content], Some(form.as_bytes()))?;
        answer.ok(&format!("{service} {action}"))
    }

    /// Calls an operation of a service that speaks JSON, such as
    /// `("sqs", "AmazonSQS.SendMessage")`.
    pub fn json(&self, service: &str, target: &str, body: &Value) -> Result<Value> {
        let headers = [("x-amz-target", target), ("content-type", "application/x-amz-json-1.0")];
        let answer = self.send("POST", "/", service, &headers, Some(body.to_string().as_bytes()))?;
        let text = answer.ok(target)?;
        if text.trim().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&text).with_context(|| format!("{target}: the answer is not JSON: {text}"))
    }

    /// Creates a bucket; one that exists is left as it is.
    pub fn create_bucket(&self, bucket: &str) -> Result<()> {
        let answer = self.send("PUT", &format!("/{bucket}"), "s3", &[], Some(b""))?;
        if answer.status != 409 {
            answer.ok(&format!("S3: creating the bucket {bucket}"))?;
        }
        Ok(())
    }

    /// Writes an object.
    pub fn put_object(&self, bucket: &str, key: &str, body: &str) -> Result<()> {
        let answer = self.send("PUT", &format!("/{bucket}/{key}"), "s3", &[], Some(body.as_bytes()))?;
        answer.ok(&format!("S3: writing s3://{bucket}/{key}"))?;
        Ok(())
    }

    /// Reads an object; `None` when there is none.
    pub fn object(&self, bucket: &str, key: &str) -> Result<Option<String>> {
        let answer = self.send("GET", &format!("/{bucket}/{key}"), "s3", &[], None)?;
        if answer.status == 404 {
            return Ok(None);
        }
        answer.ok(&format!("S3: reading s3://{bucket}/{key}")).map(Some)
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        service: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Result<Answer> {
        let scope = format!("{ACCESS_KEY}/20260101/{REGION}/{service}/aws4_request");
        let authorization = format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=00");
        let mut signed = vec![("authorization", authorization.as_str())];
        signed.extend_from_slice(headers);
        let url = format!("{}{path}", self.endpoint);
        self.http.send(method, &url, &signed, body)
    }
}

/// Shorthand for EC2's parameters.
pub fn parameter(name: impl Into<String>, value: impl Into<String>) -> (String, String) {
    (name.into(), value.into())
}

/// Percent-encodes everything but RFC 3986's unreserved characters.
pub(crate) fn escape(text: &str) -> String {
    let one = |byte: u8| {
        let plain = byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        if plain { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(one).collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn escape_keeps_only_unreserved_characters() {
        assert_eq!(escape("tag:Name a/b+c"), "tag%3AName%20a%2Fb%2Bc");
    }
}
