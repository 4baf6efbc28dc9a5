//! A control plane that only schedules: etcd, the API server and kube-scheduler. Nothing plays
//! kubelets or controllers, so whatever a test does not do by itself stays undone.

use std::fs;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::cache::Cache;
use crate::control_plane::ControlPlane;
use crate::kubernetes::Kubernetes;
use crate::ports;
use crate::process::Process;
use crate::tools::Tools;

/// A running control plane; dropping it ends its processes.
#[derive(Debug)]
pub struct SchedulingPlane {
    // Fields drop in this order: the scheduler first, etcd last, then the directory.
    processes: Vec<Process>,
    kubernetes: Kubernetes,
    _directory: TempDir,
}

impl SchedulingPlane {
    /// Starts it and waits until the API server is ready. `feature_gates` are those that differ
    /// from the defaults, as `A=true,B=false`.
    pub fn start(feature_gates: Option<&str>) -> Result<Self> {
        let tools = Tools::ensure(&Cache::open()?)?;
        let directory = tempfile::Builder::new().prefix("outrigger-scheduling-").tempdir();
        let directory = directory.context("creating a temporary directory for the control plane")?;
        fs::create_dir_all(directory.path().join("logs")).context("creating the folder of logs")?;
        let [etcd_port, peer_port, api_port] = ports::free()?;
        let plane =
            ControlPlane::prepare(directory.path(), api_port, true)?.with_feature_gates(feature_gates);
        let etcd = plane.etcd(&tools, etcd_port, peer_port)?;
        let api_server = plane.api_server(&tools, etcd_port)?;
        plane.wait(&api_server)?;
        let scheduler = plane.scheduler(&tools)?;
        let processes = vec![scheduler, api_server, etcd];
        Ok(Self { processes, kubernetes: plane.admin, _directory: directory })
    }

    /// The API server, as an administrator.
    pub fn kubernetes(&self) -> &Kubernetes {
        &self.kubernetes
    }

    /// The first part that is not running any more.
    pub fn dead_part(&self) -> Option<&str> {
        self.processes.iter().find(|process| !process.is_running()).map(|process| process.name.as_str())
    }
}
