//! How the API server is reached, and how we prove who we are.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::reader::Reader;

/// How the API server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiServer {
    /// `OUTRIGGER_API_SERVER`: `https://…`.
    pub(crate) url: String,
    /// `OUTRIGGER_API_CA`: certificates in PEM, or none for the public roots.
    pub(crate) ca: Option<String>,
    /// `OUTRIGGER_API_SERVER_NAME`: the name in its certificate, where the address is another.
    pub(crate) server_name: Option<String>,
    /// How we prove who we are.
    pub(crate) auth: Auth,
}

/// How we prove to the API server who we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Auth {
    /// aws-iam-authenticator: our role, signed. `OUTRIGGER_API_CLUSTER_ID` where it is not the
    /// cluster's name.
    Iam {
        /// The authenticator's cluster id.
        cluster_id: String,
    },
    /// `OUTRIGGER_API_TOKEN_PARAMETER`: a bearer token in an SSM SecureString parameter.
    TokenParameter(String),
}

impl ApiServer {
    pub(super) fn read(reader: &mut Reader<'_>, cluster: &str) -> Self {
        let url = reader.required("OUTRIGGER_API_SERVER", "the API server's https:// address");
        if !url.is_empty() && !url.starts_with("https://") {
            reader.complain(format!("OUTRIGGER_API_SERVER is {url:?}; allowed: an https:// address"));
        }
        let cluster_id = reader.optional("OUTRIGGER_API_CLUSTER_ID").unwrap_or_else(|| cluster.to_owned());
        let auth = reader.optional("OUTRIGGER_API_TOKEN_PARAMETER");
        let auth = auth.map_or(Auth::Iam { cluster_id }, Auth::TokenParameter);
        let ca = reader.optional("OUTRIGGER_API_CA").map(certificates).transpose();
        let ca = ca.unwrap_or_else(|problem| {
            reader.complain(problem);
            None
        });
        Self { url, ca, server_name: reader.optional("OUTRIGGER_API_SERVER_NAME"), auth }
    }
}

/// Certificates in PEM, which may be wrapped in base64 as in a kubeconfig: one line, which a prompt
/// can take.
fn certificates(text: String) -> Result<String, String> {
    const BEGINNING: &str = "-----BEGIN CERTIFICATE-----";
    if text.contains(BEGINNING) {
        return Ok(text);
    }
    let line: String = text.split_whitespace().collect();
    let unwrapped = STANDARD.decode(&line).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    unwrapped.filter(|pem| pem.contains(BEGINNING)).ok_or_else(|| {
        let beginning: String = line.chars().take(20).collect();
        format!(
            "OUTRIGGER_API_CA begins with {beginning:?}; allowed: certificate-authority-data of a kubeconfig, or certificates \
             in PEM"
        )
    })
}
