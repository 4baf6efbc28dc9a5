//! A call of AWS as it comes over the wire: who makes it, which operation it is, and with what.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::Value;
use url::form_urlencoded;

/// A call.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// The access key id that it is signed with.
    pub caller: String,
    /// The service's name in the credential scope, as `ec2`.
    pub service: String,
    /// As `CreateFleet`.
    pub operation: String,
    /// What EC2 and STS are told: the form, without action and version.
    pub parameters: BTreeMap<String, String>,
    /// What a service that speaks JSON is told.
    pub body: Value,
    /// S3's bucket and key; the key is empty where the bucket itself is asked.
    pub object: (String, String),
}

impl Call {
    /// Reads a request. Header names are lower-case; `target` is a path with its query.
    pub fn read(method: &str, target: &str, headers: &[(String, String)], body: &[u8]) -> Result<Self> {
        let header =
            |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
        let (caller, service) = signed(header("authorization").unwrap_or_default())
            .context("the request is not signed: it has no credential scope")?;
        let mut call = Self { caller, service, ..Self::default() };
        if call.service == "s3" {
            call.read_object(method, target);
        } else if let Some(target) = header("x-amz-target") {
            target.rsplit('.').next().unwrap_or_default().clone_into(&mut call.operation);
            call.body = serde_json::from_slice(body).context("the request is not JSON")?;
        } else {
            call.parameters = form_urlencoded::parse(body).into_owned().collect();
            call.operation = call.parameters.remove("Action").context("the request names no action")?;
            call.parameters.remove("Version");
        }
        Ok(call)
    }

    /// An object is asked by its path, a bucket by its path and a query.
    fn read_object(&mut self, method: &str, target: &str) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (bucket, key) =
            path.trim_start_matches('/').split_once('/').unwrap_or((path.trim_matches('/'), ""));
        let key = form_urlencoded::parse(key.replace('+', "%2B").as_bytes())
            .map(|(key, _)| key.into_owned())
            .next();
        self.object = (bucket.to_owned(), key.unwrap_or_default());
        let lists = query.split('&').any(|pair| pair.starts_with("list-type=2"));
        self.operation = match (method, self.object.1.as_str()) {
            ("GET", "") if lists => "ListObjectsV2".to_owned(),
            ("GET", key) if !key.is_empty() => "GetObject".to_owned(),
            ("PUT", key) if !key.is_empty() => "PutObject".to_owned(),
            (method, _) => format!("{method} {path}"),
        };
    }

    /// A parameter of EC2.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }

    /// The members of a list of EC2, as `InstanceId.1` and `InstanceId.2`.
    pub(crate) fn list<'c>(&'c self, name: &'c str) -> impl Iterator<Item = &'c str> {
        (1..).map_while(move |index| self.parameter(&format!("{name}.{index}")))
    }

    /// How many entries a list of structures has under a name, as
    /// `TagSpecification.1.ResourceType`.
    pub(crate) fn entries<'c>(&'c self, name: &'c str) -> impl Iterator<Item = String> + 'c {
        let present = |prefix: &String| {
            self.parameters
                .range(prefix.clone()..)
                .next()
                .is_some_and(|(key, _)| key.starts_with(prefix.as_str()))
        };
        (1..).map(move |index| format!("{name}.{index}.")).take_while(present)
    }

    /// Tags under a prefix, as `TagSpecification.1.`.
    pub(crate) fn tags(&self, prefix: &str) -> BTreeMap<String, String> {
        let name = format!("{prefix}Tag");
        let entries: Vec<String> = self.entries(&name).collect();
        let text = |name: String| self.parameter(&name).unwrap_or_default().to_owned();
        entries.iter().map(|entry| (text(format!("{entry}Key")), text(format!("{entry}Value")))).collect()
    }
}

/// Key id and service of a signature:
/// `AWS4-HMAC-SHA256 Credential=ID/DATE/REGION/SERVICE/aws4_request, …`.
fn signed(authorization: &str) -> Option<(String, String)> {
    let scope = authorization.split_once("Credential=")?.1.split(',').next()?;
    let parts: Vec<&str> = scope.split('/').collect();
    let [caller, _date, _region, service, _] = parts[..] else { return None };
    Some((caller.to_owned(), service.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(service: &str, target: Option<&str>) -> Vec<(String, String)> {
        let scope = format!(
            "AWS4-HMAC-SHA256 Credential=provision/20260101/us-east-1/{service}/aws4_request, Signature=00"
        );
        let mut headers = vec![("authorization".to_owned(), scope)];
        headers.extend(target.map(|target| ("x-amz-target".to_owned(), target.to_owned())));
        headers
    }

    #[test]
    fn each_protocol_names_its_operation() {
        let form = b"Action=TerminateInstances&Version=2016-11-15&InstanceId.1=i-1&InstanceId.2=i%2D2";
        let call = Call::read("POST", "/", &headers("ec2", None), form).unwrap();
        assert_eq!((call.caller.as_str(), call.operation.as_str()), ("provision", "TerminateInstances"));
        assert_eq!(call.list("InstanceId").collect::<Vec<_>>(), ["i-1", "i-2"]);
        assert_eq!(call.parameters.len(), 2);
        let target = Some("DynamoDB_20120810.GetItem");
        let call = Call::read("POST", "/", &headers("dynamodb", target), br#"{"TableName":"t"}"#).unwrap();
        assert_eq!((call.operation.as_str(), &call.body["TableName"]), ("GetItem", &"t".into()));
        for (method, path, operation, object) in [
            ("GET", "/b/k/a%20c?x-id=GetObject", "GetObject", ("b", "k/a c")),
            ("GET", "/b?list-type=2&prefix=k", "ListObjectsV2", ("b", "")),
            ("GET", "/b/?list-type=2&prefix=k", "ListObjectsV2", ("b", "")),
            ("PUT", "/b/catalog/catalog-v1?x-id=PutObject", "PutObject", ("b", "catalog/catalog-v1")),
            ("DELETE", "/b/k", "DELETE /b/k", ("b", "k")),
        ] {
            let call = Call::read(method, path, &headers("s3", None), b"").unwrap();
            assert_eq!((call.operation.as_str(), (&*call.object.0, &*call.object.1)), (operation, object));
        }
    }

    #[test]
    fn who_does_not_sign_is_not_read() {
        let error = Call::read("POST", "/", &[], b"Action=DescribeImages").unwrap_err().to_string();
        assert!(error.contains("not signed"), "{error}");
    }

    #[test]
    fn tags_are_read_in_their_order_and_with_empty_values() {
        let form = b"Action=X&TagSpecification.1.ResourceType=fleet&TagSpecification.1.Tag.1.Key=a&\
            TagSpecification.1.Tag.1.Value=&TagSpecification.1.Tag.2.Key=b&TagSpecification.1.Tag.2.Value=c&\
            TagSpecification.2.ResourceType=volume";
        let call = Call::read("POST", "/", &headers("ec2", None), form).unwrap();
        let specifications: Vec<String> = call.entries("TagSpecification").collect();
        assert_eq!(specifications.len(), 2);
        let tags = BTreeMap::from([("a".to_owned(), String::new()), ("b".to_owned(), "c".to_owned())]);
        assert_eq!((call.tags(&specifications[0]), call.tags(&specifications[1])), (tags, BTreeMap::new()));
    }
}
