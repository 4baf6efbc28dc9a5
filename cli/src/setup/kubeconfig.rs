//! The API server's address and CA, from a kubeconfig.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::cluster::KopsCluster;
use crate::error::CliError;
use crate::files::read;

/// What a kubeconfig says of the cluster's API server.
pub(crate) struct ApiServer {
    /// Its address.
    pub(crate) url: String,
    /// Its CA in one line of base64, as `certificate-authority-data`; `None` for one that every
    /// machine trusts.
    pub(crate) ca: Option<String>,
    /// The name in its certificate, where the kubeconfig names another than the address.
    pub(crate) tls_name: Option<String>,
    /// A proxy, which the functions do not use.
    pub(crate) proxy: Option<String>,
    /// The context that says so.
    pub(crate) context: String,
}

impl ApiServer {
    /// The host of its address, without scheme and port.
    pub(crate) fn host(&self) -> &str {
        let rest = self.url.strip_prefix("https://").unwrap_or(&self.url);
        let end = rest.find(['/', ':']).unwrap_or(rest.len());
        &rest[..end]
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Kubeconfig {
    current_context: Option<String>,
    contexts: Option<Vec<NamedContext>>,
    clusters: Option<Vec<NamedCluster>>,
}

#[derive(Debug, Deserialize)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Debug, Deserialize)]
struct Context {
    cluster: String,
}

#[derive(Debug, Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: Option<String>,
    certificate_authority_data: Option<String>,
    certificate_authority: Option<PathBuf>,
    tls_server_name: Option<String>,
    proxy_url: Option<String>,
}

/// The API server of a cluster: that of the context of its name, else of the current one.
pub(crate) fn api_server(asked: Option<&Path>, cluster: &KopsCluster) -> Result<ApiServer, CliError> {
    let paths = paths(asked)?;
    let shown = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let mut files = Vec::new();
    for path in paths {
        // kubectl passes over files of a list that are not there.
        if asked.is_some() || path.exists() {
            let config = parse(&path)?;
            files.push((path, config));
        }
    }
    let (name, context) = context(&files, cluster, &shown)?;
    let clusters = files
        .iter()
        .flat_map(|(path, config)| config.clusters.iter().flatten().map(move |cluster| (path, cluster)));
    let entry = clusters.into_iter().find(|(_, entry)| entry.name == context.cluster);
    let Some((path, entry)) = entry else {
        let what = format!("{shown}: contexts[{name}].context.cluster");
        let actual = format!("{:?}, which is not among the clusters", context.cluster);
        return Err(CliError::Missing { what, actual, allowed: "the name of one of the clusters".into() });
    };
    let server = ApiServer {
        url: address(path, entry)?,
        ca: authority(path, entry)?,
        tls_name: entry.cluster.tls_server_name.clone().filter(|name| !name.is_empty()),
        proxy: entry.cluster.proxy_url.clone().filter(|proxy| !proxy.is_empty()),
        context: name.to_owned(),
    };
    check_is_its(&server, cluster, path)?;
    Ok(server)
}

/// The files that kubectl would read.
fn paths(asked: Option<&Path>) -> Result<Vec<PathBuf>, CliError> {
    if let Some(file) = asked {
        return Ok(vec![file.to_owned()]);
    }
    let listed = std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty());
    if let Some(list) = listed {
        return Ok(std::env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()).collect());
    }
    let home = std::env::home_dir().ok_or_else(|| CliError::Missing {
        what: "--kubeconfig".into(),
        actual: "nothing, and neither KUBECONFIG nor a home folder".into(),
        allowed: "a kubeconfig file".into(),
    })?;
    Ok(vec![home.join(".kube").join("config")])
}

fn parse(path: &Path) -> Result<Kubeconfig, CliError> {
    let text = read(path)?;
    serde_saphyr::from_str(&text).map_err(|error| CliError::Missing {
        what: path.display().to_string(),
        actual: error.to_string().lines().next().unwrap_or_default().to_owned(),
        allowed: "a kubeconfig, as kubectl reads it".into(),
    })
}

fn context<'f>(
    files: &'f [(PathBuf, Kubeconfig)],
    cluster: &KopsCluster,
    shown: &str,
) -> Result<(&'f str, &'f Context), CliError> {
    let contexts = || files.iter().flat_map(|(_, config)| config.contexts.iter().flatten());
    let find = |name: &str| {
        contexts().find(|entry| entry.name == name).map(|entry| (entry.name.as_str(), &entry.context))
    };
    let current =
        || files.iter().find_map(|(_, config)| config.current_context.as_deref().filter(|n| !n.is_empty()));
    find(&cluster.name).or_else(|| current().and_then(find)).ok_or_else(|| {
        let names: Vec<&str> = contexts().map(|entry| entry.name.as_str()).collect();
        let actual =
            if names.is_empty() { "no context".to_owned() } else { format!("contexts {}", names.join(", ")) };
        CliError::Missing {
            what: format!("kubeconfig {shown}"),
            actual,
            allowed: format!(
                "a context {0}, or a current one; `kops export kubeconfig --name {0}` writes it",
                cluster.name
            ),
        }
    })
}

fn address(path: &Path, entry: &NamedCluster) -> Result<String, CliError> {
    let server = entry.cluster.server.as_deref().unwrap_or_default().trim_end_matches('/');
    let host = server.strip_prefix("https://").unwrap_or_default();
    let is_plain = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || "\"'\\,".contains(c));
    let is_here = ["127.", "localhost", "[::1]", "0.0.0.0"].iter().any(|here| host.starts_with(here));
    if is_plain && !is_here {
        return Ok(server.to_owned());
    }
    Err(CliError::Missing {
        what: format!("{}: clusters[{}].cluster.server", path.display(), entry.name),
        actual: format!("{server:?}"),
        allowed: "an https:// address that AWS reaches, as kops export kubeconfig writes it".into(),
    })
}

/// The CA, as one line of base64. A file that the kubeconfig names is PEM, beside the kubeconfig.
fn authority(path: &Path, entry: &NamedCluster) -> Result<Option<String>, CliError> {
    let field = |name: &str| format!("{}: clusters[{}].cluster.{name}", path.display(), entry.name);
    if let Some(data) = entry.cluster.certificate_authority_data.as_deref().filter(|data| !data.is_empty()) {
        let line: String = data.split_whitespace().collect();
        let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
        if line.bytes().all(is_base64) {
            return Ok(Some(line));
        }
        return Err(CliError::Missing {
            what: field("certificate-authority-data"),
            actual: "no base64".into(),
            allowed: "a certificate in PEM, as base64".into(),
        });
    }
    let Some(file) = &entry.cluster.certificate_authority else { return Ok(None) };
    let file = path.parent().map_or_else(|| file.clone(), |folder| folder.join(file));
    let pem = read(&file)?;
    if !pem.contains("-----BEGIN CERTIFICATE-----") {
        return Err(CliError::Missing {
            what: field("certificate-authority"),
            actual: format!("{}, which holds no certificate", file.display()),
            allowed: "a file of certificates in PEM".into(),
        });
    }
    Ok(Some(STANDARD.encode(pem)))
}

/// A current context is perhaps another cluster's, to whose nodes no function may come.
fn check_is_its(server: &ApiServer, cluster: &KopsCluster, path: &Path) -> Result<(), CliError> {
    let names = [server.tls_name.as_deref(), Some(server.host())];
    let other = names.into_iter().flatten().find(|name| {
        let rest = name.strip_prefix("api.").map(|rest| rest.strip_prefix("internal.").unwrap_or(rest));
        let is_public_name = cluster.text("/masterPublicName") == Some(name);
        rest.is_some_and(|rest| rest != cluster.name) && !is_public_name
    });
    match other.filter(|_| server.context != cluster.name) {
        None => Ok(()),
        Some(other) => Err(CliError::Missing {
            what: format!("{}: context {}", path.display(), server.context),
            actual: format!("the API server {other}"),
            allowed: format!("that of {0}; `kops export kubeconfig --name {0}` writes it", cluster.name),
        }),
    }
}
