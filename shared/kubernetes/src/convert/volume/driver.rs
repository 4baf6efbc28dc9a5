//! Who attaches a volume, and what counts as one attachment. The drivers that were once part of
//! Kubernetes have CSI drivers in their place, which nodes count under
//! (`k8s.io/csi-translation-lib`).

use k8s_openapi::api::core::v1::PersistentVolumeSpec;

const EBS: &str = "ebs.csi.aws.com";
const GCE: &str = "pd.csi.storage.gke.io";
const CINDER: &str = "cinder.csi.openstack.org";
const AZURE_DISK: &str = "disk.csi.azure.com";
const AZURE_FILE: &str = "file.csi.azure.com";
const VSPHERE: &str = "csi.vsphere.vmware.com";
const PORTWORX: &str = "pxd.portworx.com";

/// The provisioner of classes whose volumes people make.
pub(super) const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The driver of a provisioner; none for the one that makes no volumes.
pub(super) fn of_provisioner(provisioner: &str) -> &str {
    match provisioner {
        "kubernetes.io/aws-ebs" => EBS,
        "kubernetes.io/gce-pd" => GCE,
        "kubernetes.io/cinder" => CINDER,
        "kubernetes.io/azure-disk" => AZURE_DISK,
        "kubernetes.io/azure-file" => AZURE_FILE,
        "kubernetes.io/vsphere-volume" => VSPHERE,
        "kubernetes.io/portworx-volume" => PORTWORX,
        NO_PROVISIONER => "",
        other => other,
    }
}

/// Driver and handle of a volume; both are empty for one that nothing has to attach, as NFS or a
/// path of the host.
pub(super) fn of_volume(spec: &PersistentVolumeSpec) -> (String, String) {
    if let Some(csi) = &spec.csi {
        return (csi.driver.clone(), csi.volume_handle.clone());
    }
    let in_tree = [
        (EBS, spec.aws_elastic_block_store.as_ref().map(|volume| last_part(&volume.volume_id))),
        (GCE, spec.gce_persistent_disk.as_ref().map(|volume| volume.pd_name.as_str())),
        (CINDER, spec.cinder.as_ref().map(|volume| volume.volume_id.as_str())),
        (AZURE_DISK, spec.azure_disk.as_ref().map(|volume| volume.disk_uri.as_str())),
        (AZURE_FILE, spec.azure_file.as_ref().map(|volume| volume.share_name.as_str())),
        (VSPHERE, spec.vsphere_volume.as_ref().map(|volume| volume.volume_path.as_str())),
        (PORTWORX, spec.portworx_volume.as_ref().map(|volume| volume.volume_id.as_str())),
    ];
    let attached = in_tree.into_iter().find_map(|(driver, handle)| Some((driver.into(), handle?.into())));
    attached.unwrap_or_default()
}

/// `vol-1` of `aws://us-east-1a/vol-1`, as the CSI driver names it.
fn last_part(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or(id)
}
