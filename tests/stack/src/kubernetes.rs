//! The API server as the stack and its tests use it: JSON over TLS with a bearer token.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::http::{Answer, Http};

/// Who sets the fields that the stack applies.
const FIELD_MANAGER: &str = "outrigger-stack";

/// A client for the stack's API server; cheap to clone.
#[derive(Clone, Debug)]
pub struct Kubernetes {
    url: String,
    token: String,
    /// The group in whose name it asks.
    group: Option<String>,
    http: Http,
}

impl Kubernetes {
    /// A client that trusts `ca_pem` and shows `token`.
    pub fn new(url: &str, token: &str, ca_pem: &str) -> Result<Self> {
        let http = Http::trusting(ca_pem, Duration::from_secs(30))?;
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            token: format!("Bearer {token}"),
            group: None,
            http,
        })
    }

    /// The same client in the name of somebody who is in this group and in no other.
    #[must_use]
    pub fn in_the_name_of(&self, group: &str) -> Self {
        Self { group: Some(group.to_owned()), ..self.clone() }
    }

    /// A client from a kubeconfig that the stack wrote.
    pub fn from_kubeconfig(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let config: Value = serde_saphyr::from_str(&text)
            .with_context(|| format!("{} is not a kubeconfig", path.display()))?;
        let field = |pointer: &str| {
            let value = config.pointer(pointer).and_then(Value::as_str);
            value.with_context(|| format!("{} has no {pointer}", path.display()))
        };
        let ca = STANDARD.decode(field("/clusters/0/cluster/certificate-authority-data")?)?;
        Self::new(
            field("/clusters/0/cluster/server")?,
            field("/users/0/user/token")?,
            &String::from_utf8(ca)?,
        )
    }

    /// Whether the server answers that it is ready.
    pub fn is_ready(&self) -> bool {
        self.request("GET", "/readyz", None).is_ok_and(|answer| answer.status == 200)
    }

    /// Reads an object or a list.
    pub fn get(&self, path: &str) -> Result<Value> {
        self.json("GET", path, None)
    }

    /// Reads an object; `None` when there is none.
    pub fn find(&self, path: &str) -> Result<Option<Value>> {
        let answer = self.request("GET", path, None)?;
        if answer.status == 404 {
            return Ok(None);
        }
        Ok(Some(serde_json::from_str(&answer.ok(&format!("GET {path}"))?)?))
    }

    /// The items of a list.
    pub fn list(&self, path: &str) -> Result<Vec<Value>> {
        match self.get(path)?["items"].take() {
            Value::Array(items) => Ok(items),
            _ => bail!("GET {path}: not a list"),
        }
    }

    /// What happens in a collection from `version` on, as the watch events that the server sends.
    /// It ends when the server ends it.
    pub fn watch(&self, path: &str, version: &str) -> Result<impl Iterator<Item = Result<Value>> + use<>> {
        let url = format!("{}{path}?watch=true&allowWatchBookmarks=true&resourceVersion={version}", self.url);
        let lines = self.http.lines(&url, &[("authorization", self.token.as_str())])?;
        Ok(lines.map(|line| Ok(serde_json::from_str(&line?)?)))
    }

    /// Creates an object in a collection.
    pub fn create(&self, path: &str, object: &Value) -> Result<Value> {
        self.json("POST", path, Some(object))
    }

    /// Creates an object and hands back the raw answer, for callers that expect conflicts or
    /// refusals.
    pub fn try_create(&self, path: &str, object: &Value) -> Result<Answer> {
        self.request("POST", path, Some(&("application/json", object.to_string())))
    }

    /// Merges a patch into an object.
    pub fn merge(&self, path: &str, change: &Value) -> Result<Value> {
        let body = ("application/merge-patch+json", change.to_string());
        parse(&self.request("PATCH", path, Some(&body))?.ok(&format!("PATCH {path}"))?)
    }

    /// Deletes an object; one that is not there is fine.
    pub fn delete(&self, path: &str) -> Result<()> {
        let answer = self.request("DELETE", path, None)?;
        if answer.status != 404 {
            answer.ok(&format!("DELETE {path}"))?;
        }
        Ok(())
    }

    /// Applies every document of a YAML text on the server's side.
    pub fn apply_yaml(&self, yaml: &str) -> Result<()> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).context("reading the manifest")?;
        documents.iter().filter(|document| !document.is_null()).try_for_each(|document| self.apply(document))
    }

    /// Applies one object on the server's side.
    pub fn apply(&self, object: &Value) -> Result<()> {
        let path = self.object_path(object)?;
        let path = format!("{path}?fieldManager={FIELD_MANAGER}&force=true");
        let body = ("application/apply-patch+yaml", object.to_string());
        self.request("PATCH", &path, Some(&body))?.ok(&format!("applying {path}"))?;
        Ok(())
    }

    /// The path of an object, by the server's own discovery.
    fn object_path(&self, object: &Value) -> Result<String> {
        let text = |pointer: &str| {
            let value = object.pointer(pointer).and_then(Value::as_str);
            value.with_context(|| format!("the object has no {pointer}: {object}"))
        };
        let (version, kind, name) = (text("/apiVersion")?, text("/kind")?, text("/metadata/name")?);
        let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
        let resources = self.get(&root)?;
        let resource = resources["resources"]
            .as_array()
            .and_then(|resources| {
                resources.iter().find(|one| one["kind"] == kind && !one["name"].to_string().contains('/'))
            })
            .with_context(|| format!("the API server knows no {kind} in {version}"))?;
        let plural = resource["name"].as_str().unwrap_or_default();
        if resource["namespaced"] == true {
            let namespace =
                object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or("default");
            return Ok(format!("{root}/namespaces/{namespace}/{plural}/{name}"));
        }
        Ok(format!("{root}/{plural}/{name}"))
    }

    fn json(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let body = body.map(|value| ("application/json", value.to_string()));
        parse(&self.request(method, path, body.as_ref())?.ok(&format!("{method} {path}"))?)
    }

    fn request(&self, method: &str, path: &str, body: Option<&(&str, String)>) -> Result<Answer> {
        let mut headers = vec![("authorization", self.token.as_str()), ("accept", "application/json")];
        if let Some((content, _)) = body {
            headers.push(("content-type", content));
        }
        if let Some(group) = &self.group {
            headers.extend([("impersonate-user", "somebody"), ("impersonate-group", group.as_str())]);
        }
        let bytes = body.map(|(_, text)| text.as_bytes());
        self.http.send(method, &format!("{}{path}", self.url), &headers, bytes)
    }
}

/// Writes a kubeconfig for one user.
pub(crate) fn write_kubeconfig(path: &Path, url: &str, ca_pem: &str, user: &str, token: &str) -> Result<()> {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "stack",
        "clusters": [{
            "name": "stack",
            "cluster": {"server": url, "certificate-authority-data": STANDARD.encode(ca_pem)},
        }],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "stack", "context": {"cluster": "stack", "user": user}}],
    });
    let text = serde_json::to_string_pretty(&config)?;
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

fn parse(text: &str) -> Result<Value> {
    serde_json::from_str(text).with_context(|| format!("the API server's answer is not JSON: {text}"))
}
