//! Keys and certificates of one stack, made anew at each start: an authority, the API server's
//! certificate, and the key that signs service account tokens.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use crate::kops::CLUSTER;

/// The files that the control plane is started with.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// Certificate of the authority, as PEM text.
    pub ca_pem: String,
    /// The API server's certificate.
    pub server_certificate: PathBuf,
    /// Its key.
    pub server_key: PathBuf,
    /// Private key of service accounts.
    pub service_accounts: PathBuf,
    /// Its public half.
    pub service_accounts_public: PathBuf,
}

impl Keys {
    /// Makes them and writes them under `directory`.
    pub(crate) fn generate(directory: &Path) -> Result<Self> {
        fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
        let authority_key = KeyPair::generate()?;
        let mut authority = CertificateParams::default();
        authority.distinguished_name.push(DnType::CommonName, "outrigger stack");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let ca_pem = authority.self_signed(&authority_key)?.pem();
        let issuer = Issuer::new(authority, authority_key);

        let server_key = KeyPair::generate()?;
        // Those by which kOps' servers are known among them.
        let by_kops = ["api", "api.internal"].map(|name| format!("{name}.{CLUSTER}"));
        let local = ["127.0.0.1", "::1", "localhost", "kubernetes.default.svc"].map(str::to_owned);
        let names = [&local[..], &by_kops].concat();
        let mut server = CertificateParams::new(names)?;
        server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        let certificate = server.signed_by(&server_key, &issuer)?;

        let accounts = KeyPair::generate()?;
        let write = |name: &str, content: &str| -> Result<PathBuf> {
            let path = directory.join(name);
            fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
            Ok(path)
        };
        write("ca.crt", &ca_pem)?;
        Ok(Self {
            server_certificate: write("server.crt", &certificate.pem())?,
            server_key: write("server.key", &server_key.serialize_pem())?,
            service_accounts: write("sa.key", &accounts.serialize_pem())?,
            service_accounts_public: write("sa.pub", &accounts.public_key_pem())?,
            ca_pem,
        })
    }
}
