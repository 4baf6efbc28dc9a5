//! Objects in S3.

use std::fmt;
use std::str::FromStr;

use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::SdkError;
use aws_sdk_s3::operation::get_object::GetObjectError;
use aws_sdk_s3::primitives::ByteStream;
use outrigger_engine::ports::CloudError;

use crate::{Aws, errors};

const SERVICE: &str = "S3";

/// A bucket and a prefix in it, written `s3://bucket/prefix`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Location {
    bucket: String,
    /// Empty, or with a slash at its end.
    prefix: String,
}

impl FromStr for S3Location {
    type Err = CloudError;

    fn from_str(text: &str) -> Result<Self, CloudError> {
        let parts = text.strip_prefix("s3://").map(|rest| rest.split_once('/').unwrap_or((rest, "")));
        let Some((bucket, prefix)) = parts.filter(|(bucket, _)| !bucket.is_empty()) else {
            let why = "it is not of the form s3://bucket/prefix".to_owned();
            return Err(CloudError::Unusable { what: format!("S3 location {text:?}"), why });
        };
        let prefix = prefix.trim_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Ok(Self { bucket: bucket.to_owned(), prefix })
    }
}

impl fmt::Display for S3Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.prefix)
    }
}

impl S3Location {
    /// The location of a directory below it.
    pub(crate) fn below(&self, directory: &str) -> Self {
        Self { bucket: self.bucket.clone(), prefix: format!("{}{directory}/", self.prefix) }
    }

    /// An object's content; `None` when there is none.
    pub(crate) async fn get(&self, aws: &Aws, path: &str) -> Result<Option<Vec<u8>>, CloudError> {
        let attempted = || format!("read {self}{path}");
        let object = loop {
            let get =
                aws.s3(&self.bucket).get_object().bucket(&self.bucket).key(format!("{}{path}", self.prefix));
            match get.send().await {
                Ok(object) => break object,
                Err(error) if error.as_service_error().is_some_and(GetObjectError::is_no_such_key) => {
                    return Ok(None);
                }
                Err(error) if self.lies_elsewhere(aws, &error) => {}
                Err(error) => return Err(errors::cloud(SERVICE, attempted(), error)),
            }
        };
        let bytes = object.body.collect().await.map_err(|error| CloudError::Unknown {
            service: SERVICE,
            attempted: attempted(),
            source: Box::new(error),
        })?;
        Ok(Some(bytes.to_vec()))
    }

    /// An object's content as text; `None` when there is none.
    pub(crate) async fn get_text(&self, aws: &Aws, path: &str) -> Result<Option<String>, CloudError> {
        let Some(bytes) = self.get(aws, path).await? else { return Ok(None) };
        let text = String::from_utf8(bytes);
        text.map(Some)
            .map_err(|error| CloudError::Unusable { what: format!("{self}{path}"), why: error.to_string() })
    }

    /// Writes an object.
    pub(crate) async fn put(&self, aws: &Aws, path: &str, bytes: Vec<u8>) -> Result<(), CloudError> {
        let put =
            aws.s3(&self.bucket).put_object().bucket(&self.bucket).key(format!("{}{path}", self.prefix));
        let sent = put.body(ByteStream::from(bytes)).send().await;
        sent.map(|_| ()).map_err(|error| errors::cloud(SERVICE, format!("write {self}{path}"), error))
    }

    /// The names of the objects right below a directory, in order.
    pub(crate) async fn list(&self, aws: &Aws, directory: &str) -> Result<Vec<String>, CloudError> {
        let prefix = format!("{}{directory}", self.prefix);
        let mut names = Vec::new();
        let mut token = None;
        loop {
            let list =
                aws.s3(&self.bucket).list_objects_v2().bucket(&self.bucket).prefix(&prefix).delimiter("/");
            let page = match list.set_continuation_token(token.clone()).send().await {
                Ok(page) => page,
                Err(error) if self.lies_elsewhere(aws, &error) => continue,
                Err(error) => return Err(errors::cloud(SERVICE, format!("list {self}{directory}"), error)),
            };
            let keys = page.contents().iter().filter_map(|object| object.key());
            let below = keys.filter_map(|key| key.strip_prefix(&prefix)).filter(|name| !name.is_empty());
            names.extend(below.map(str::to_owned));
            token = page.next_continuation_token;
            if token.is_none() {
                names.sort();
                return Ok(names);
            }
        }
    }

    /// Whether S3 answered that the bucket lies in a region that we did not know of; asking again
    /// then goes there.
    fn lies_elsewhere<E>(&self, aws: &Aws, error: &SdkError<E, HttpResponse>) -> bool {
        let region = error.raw_response().and_then(|response| response.headers().get("x-amz-bucket-region"));
        region.is_some_and(|region| aws.bucket_is_in(&self.bucket, region))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;

    #[track_caller]
    fn reads(text: &str, shown: &str) {
        assert_eq!(text.parse::<S3Location>().unwrap().to_string(), shown);
    }

    #[test]
    fn locations_are_read() {
        reads("s3://store", "s3://store/");
        reads("s3://store/", "s3://store/");
        reads("s3://store/a/b/", "s3://store/a/b/");
        assert_eq!(
            "s3://store/a".parse::<S3Location>().unwrap().below("k8s").to_string(),
            "s3://store/a/k8s/"
        );
    }

    #[test]
    fn other_locations_are_refused_by_their_text() {
        for text in ["", "store", "s3://", "s3:///a", "gs://store"] {
            let error = text.parse::<S3Location>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }

    /// A server that knows a bucket in eu-west-1 only, as S3's endpoints of other regions answer.
    fn european_bucket() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
                let answer = if head.contains("/eu-west-1/s3/aws4_request") {
                    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
                } else {
                    "HTTP/1.1 301 Moved Permanently\r\nx-amz-bucket-region: eu-west-1\r\nContent-Length: 0\r\n\
                     Connection: close\r\n\r\n"
                };
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        url
    }

    #[tokio::test]
    async fn a_bucket_in_another_region_is_followed_there() {
        let config = aws_config::defaults(aws_config::BehaviorVersion::latest())
            .endpoint_url(european_bucket())
            .region(aws_config::Region::new("us-east-1"))
            .credentials_provider(aws_credential_types::Credentials::new(
                "AKIDTEST", "secret", None, None, "test",
            ))
            .load()
            .await;
        let (aws, store) = (Aws::new(config), "s3://state/k8s".parse::<S3Location>().unwrap());
        for _ in 0..2 {
            assert_eq!(store.get_text(&aws, "config").await.unwrap().as_deref(), Some("hello"));
        }
        assert!(!aws.bucket_is_in("state", "eu-west-1"), "the region was not remembered");
    }
}
