//! SSM parameters: image ids, and the secrets that Outrigger signs in with.

use std::fmt;

use aws_sdk_ssm::operation::get_parameter::GetParameterError;
use aws_sdk_ssm::types::ParameterType;
use outrigger_engine::ports::CloudError;

use crate::{Aws, errors};

const SERVICE: &str = "SSM";

/// A text that must not reach a log: it prints as nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps a text.
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Aws {
    /// The value of a SecureString parameter, as a token or a kubeconfig. Errors with
    /// [`CloudError::Unusable`] when there is no such parameter.
    pub async fn secret(&self, name: &str) -> Result<Secret, CloudError> {
        let missing = || CloudError::Unusable {
            what: format!("SSM parameter {name}"),
            why: "it does not exist".into(),
        };
        self.find_secret(name).await?.ok_or_else(missing)
    }

    /// The same; `None` where there is no such parameter.
    pub async fn find_secret(&self, name: &str) -> Result<Option<Secret>, CloudError> {
        Ok(read(self, name, true).await?.map(Secret))
    }

    /// Writes a SecureString parameter, over the one that is there. `key` encrypts it, or else
    /// aws/ssm.
    pub async fn put_secret(&self, name: &str, secret: &Secret, key: Option<&str>) -> Result<(), CloudError> {
        let put =
            self.ssm.put_parameter().name(name).value(secret.expose()).set_key_id(key.map(str::to_owned));
        let put = put.r#type(ParameterType::SecureString).overwrite(true).send().await;
        put.map(drop).map_err(|error| errors::cloud(SERVICE, format!("write parameter {name}"), error))
    }
}

/// The value of a plain parameter; `None` when there is none of that name.
pub(crate) async fn parameter(aws: &Aws, name: &str) -> Result<Option<String>, CloudError> {
    read(aws, name, false).await
}

async fn read(aws: &Aws, name: &str, decrypt: bool) -> Result<Option<String>, CloudError> {
    match aws.ssm.get_parameter().name(name).with_decryption(decrypt).send().await {
        Ok(answer) => Ok(answer.parameter.and_then(|parameter| parameter.value)),
        Err(error) if error.as_service_error().is_some_and(GetParameterError::is_parameter_not_found) => {
            Ok(None)
        }
        Err(error) => Err(errors::cloud(SERVICE, format!("read parameter {name}"), error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_print() {
        let secret = Secret::new("canary-4711".into());
        assert!(!format!("{secret:?}").contains("4711"));
    }
}
