//! aws-iam-authenticator's part: a token is a presigned request to STS, which says whose it is; the
//! operator's mapping says which groups that is in.
//!
//! The real one lets STS check the signature. Here the secrets are known, so it is checked on the
//! spot, over the cluster's name in the header that the authenticator adds.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use url::Url;

use crate::aws::{REGION, escape};
use crate::http::Forwarded;
use crate::kops::CLUSTER;
use crate::options::secret_of;
use crate::schedule::FUNCTIONS;
use crate::template::Deployed;

const PREFIX: &str = "k8s-aws-v1.";
/// How long a token is good.
const LIFETIME_SECONDS: i64 = 15 * 60;

/// Who is mapped to which groups.
pub(super) struct Authenticator {
    groups: BTreeMap<String, BTreeSet<String>>,
}

impl Authenticator {
    /// Roles are mapped as the template's outputs say; one that no output names is nobody.
    pub(super) fn new(deployed: &Deployed) -> Result<Self> {
        let mapped = FUNCTIONS.iter().map(|one| Ok((one.name.to_owned(), deployed.groups(one.name)?)));
        let mut groups: BTreeMap<_, _> = mapped.collect::<Result<_>>()?;
        groups.retain(|_, groups| !groups.is_empty());
        Ok(Self { groups })
    }

    /// Answers a TokenReview.
    pub(super) fn review(&self, body: &[u8]) -> Forwarded {
        let review: Value = serde_json::from_slice(body).unwrap_or_default();
        let token = review["spec"]["token"].as_str().unwrap_or_default();
        let status = match self.identify(token, Timestamp::now()) {
            Ok(function) => json!({
                "authenticated": true, "user": {"username": function, "groups": self.groups[&function]},
            }),
            Err(error) => json!({"authenticated": false, "error": format!("{error:#}")}),
        };
        let answer = json!({"apiVersion": review["apiVersion"], "kind": "TokenReview", "status": status});
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Forwarded { status: 200, headers, body: answer.to_string().into_bytes() }
    }

    /// Whose token it is.
    fn identify(&self, token: &str, now: Timestamp) -> Result<String> {
        let encoded = token.strip_prefix(PREFIX).context("the token is none of aws-iam-authenticator's")?;
        let url = String::from_utf8(URL_SAFE_NO_PAD.decode(encoded)?)?;
        let request = Presigned::read(&url)?;
        let age = now.as_second() - request.signed_at()?.as_second();
        ensure!((-60..LIFETIME_SECONDS).contains(&age), "the token is {age} seconds old");
        let function = request.caller()?.to_owned();
        ensure!(self.groups.contains_key(&function), "{function} is not mapped to any group");
        let signature = request.signature(&secret_of(&function), CLUSTER)?;
        ensure!(
            request.value("X-Amz-Signature")? == signature,
            "the signature is not that of {function} for {CLUSTER}"
        );
        Ok(function)
    }
}

/// A presigned request.
struct Presigned {
    host: String,
    /// The query, in order of name, as it is signed.
    pairs: BTreeMap<String, String>,
}

impl Presigned {
    fn read(url: &str) -> Result<Self> {
        let url = Url::parse(url)?;
        let request = Self {
            host: url.host_str().unwrap_or_default().to_owned(),
            pairs: url.query_pairs().into_owned().collect(),
        };
        ensure!(url.scheme() == "https" && url.path() == "/", "the token is signed for {url}");
        ensure!(
            request.host == format!("sts.{REGION}.amazonaws.com"),
            "the token is signed for {}",
            request.host
        );
        ensure!(request.value("Action")? == "GetCallerIdentity", "the token is signed for another action");
        let headers = request.value("X-Amz-SignedHeaders")?;
        ensure!(headers == "host;x-k8s-aws-id", "the token signs {headers}");
        Ok(request)
    }

    fn value(&self, name: &str) -> Result<&str> {
        self.pairs.get(name).map(String::as_str).with_context(|| format!("the token has no {name}"))
    }

    /// Key id, date, region, service.
    fn scope(&self) -> Result<[&str; 4]> {
        let parts: Vec<&str> = self.value("X-Amz-Credential")?.split('/').collect();
        let [caller, date, region, service, "aws4_request"] = parts[..] else {
            bail!("the token's scope is {parts:?}")
        };
        Ok([caller, date, region, service])
    }

    fn caller(&self) -> Result<&str> {
        Ok(self.scope()?[0])
    }

    fn signed_at(&self) -> Result<Timestamp> {
        let date = self.value("X-Amz-Date")?;
        let time = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", date).context("the token's date")?;
        Ok(time.to_zoned(jiff::tz::TimeZone::UTC)?.timestamp())
    }

    /// The signature of version 4 that the request should bear.
    fn signature(&self, secret: &str, cluster: &str) -> Result<String> {
        let [_, date, region, service] = self.scope()?;
        let signed = self.pairs.iter().filter(|(name, _)| *name != "X-Amz-Signature");
        let query: Vec<_> =
            signed.map(|(name, value)| format!("{}={}", escape(name), escape(value))).collect();
        let canonical = format!(
            "GET\n/\n{}\nhost:{}\nx-k8s-aws-id:{cluster}\n\nhost;x-k8s-aws-id\n{}",
            query.join("&"),
            self.host,
            hex(&Sha256::digest(b"")),
        );
        let scope = format!("{date}/{region}/{service}/aws4_request");
        let hash = hex(&Sha256::digest(canonical.as_bytes()));
        let text = format!("AWS4-HMAC-SHA256\n{}\n{scope}\n{hash}", self.value("X-Amz-Date")?);
        let mut key = format!("AWS4{secret}").into_bytes();
        for part in [date, region, service, "aws4_request", &text] {
            key = sign(&Key::new(HMAC_SHA256, &key), part.as_bytes()).as_ref().to_vec();
        }
        Ok(hex(&key))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authenticator() -> Authenticator {
        let groups =
            ["provision", "lifecycle"].map(|name| (name.to_owned(), [format!("outrigger:{name}")].into()));
        Authenticator { groups: groups.into() }
    }

    const SIGNED_AT: &str = "20261125T030000Z";

    fn now() -> Timestamp {
        "2026-11-25T03:05:00Z".parse().unwrap()
    }

    /// A token of a caller for a cluster, with one parameter changed after it was signed.
    fn token(caller: &str, cluster: &str, changed: Option<(&str, &str)>) -> String {
        let query = format!(
            "Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date={SIGNED_AT}\
             &X-Amz-Credential={caller}/20261125/{REGION}/sts/aws4_request&X-Amz-Expires=60\
             &X-Amz-SignedHeaders=host;x-k8s-aws-id"
        );
        let url = format!("https://sts.{REGION}.amazonaws.com/?{query}");
        let signature = Presigned::read(&url).unwrap().signature(&secret_of(caller), cluster).unwrap();
        let mut url = Url::parse(&format!("{url}&X-Amz-Signature={signature}")).unwrap();
        if let Some((name, value)) = changed {
            let pairs: BTreeMap<String, String> = url.query_pairs().into_owned().collect();
            let pairs =
                pairs.iter().map(|(key, old)| (key.as_str(), if key == name { value } else { old.as_str() }));
            let query: Vec<(String, String)> =
                pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            url.query_pairs_mut().clear().extend_pairs(query);
        }
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(url.as_str()))
    }

    #[test]
    fn who_signs_as_a_function_is_that_function() {
        assert_eq!(authenticator().identify(&token("provision", CLUSTER, None), now()).unwrap(), "provision");
    }

    #[test]
    fn everybody_else_is_nobody() {
        let of_another = token("provision", "other.example.com", None);
        let later = now().checked_add(jiff::SignedDuration::from_mins(15)).unwrap();
        let theirs = format!("lifecycle/20261125/{REGION}/sts/aws4_request");
        let borrowed = token("provision", CLUSTER, Some(("X-Amz-Credential", &theirs)));
        for (token, time, why) in [
            ("stack-admin".to_owned(), now(), "none of aws-iam-authenticator's"),
            (of_another, now(), "is not that of provision for stack.example.com"),
            (borrowed, now(), "is not that of lifecycle"),
            (token("refresh", CLUSTER, None), now(), "refresh is not mapped to any group"),
            (token("provision", CLUSTER, None), later, "seconds old"),
            (token("provision", CLUSTER, Some(("Action", "GetSessionToken"))), now(), "another action"),
            (
                token("provision", CLUSTER, Some(("X-Amz-SignedHeaders", "host"))),
                now(),
                "the token signs host",
            ),
        ] {
            let error = format!("{:#}", authenticator().identify(&token, time).unwrap_err());
            assert!(error.contains(why), "{why} in {error}");
        }
    }
}
