//! Facts put together from the lists.

use anyhow::{Result, bail};
use outrigger_catalog::{EbsAttachments, Gpus, InstanceTypeFacts, NeuronDevices};

use crate::published::Table;
use crate::source::{Row, Rows};

/// The facts of every type of the list, in order of name.
pub(crate) fn collect(
    types: &Rows,
    limits: &Rows,
    attachments: &Rows,
    table: &Table,
) -> Result<Vec<InstanceTypeFacts>> {
    let facts = types.iter().map(|row| {
        let name = row.text("instance_type")?;
        let attachments = of_volumes(attachments.of_type(name)?)?;
        Ok(InstanceTypeFacts {
            ebs_attachments: Some(attachments),
            ..of_type(row, limits.of_type(name)?, table)?
        })
    });
    let mut facts = facts.collect::<Result<Vec<_>>>()?;
    facts.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(facts)
}

/// EFA interfaces stand in no list, and the published table knows fewer types with branch
/// interfaces than the list of limits (the list is newer); both are taken from the table, so that
/// allocatable agrees with it.
fn of_type(row: &Row, limits: &Row, table: &Table) -> Result<InstanceTypeFacts> {
    let name = row.text("instance_type")?;
    Ok(InstanceTypeFacts {
        name: name.to_owned(),
        arch: row.text("arch")?.to_owned(),
        vcpus: row.number("cpu")?,
        cpu_manufacturer: row.text("cpu_manufacturer")?.to_owned(),
        clock_mhz: row.number("cpu_sustained_clock_speed_mhz")?,
        memory_mib: row.number("memory")?,
        hypervisor: row.text("hypervisor")?.to_owned(),
        bare_metal: limits.is("bare_metal")?,
        interfaces: limits.number("interfaces")?,
        interfaces_on_default_card: limits.number("interfaces_on_default_card")?,
        ipv4_per_interface: limits.number("ipv4_per_interface")?,
        branch_interfaces: table.count(name, "vpc.amazonaws.com/pod-eni")?,
        efa_interfaces: table.count(name, "vpc.amazonaws.com/efa")?,
        network_mbps: row.optional_number("network_bandwidth")?,
        ebs_mbps: row.optional_number("ebs_bandwidth")?,
        ebs_attachments: None,
        local_nvme_gb: row.optional_number("local_nvme")?,
        encryption_in_transit: row.is("encryption_in_transit_supported")?,
        gpus: gpus(row)?,
        neuron: neuron(row)?,
    })
}

fn of_volumes(row: &Row) -> Result<EbsAttachments> {
    Ok(EbsAttachments { most: row.number("attachments")?, shared: row.is("shared")? })
}

fn gpus(row: &Row) -> Result<Option<Gpus>> {
    let Some(count) = row.optional_number("gpu_count")? else { return Ok(None) };
    Ok(Some(Gpus {
        count,
        name: row.text("gpu_name")?.to_owned(),
        manufacturer: row.text("gpu_manufacturer")?.to_owned(),
        memory_mib: row.number("gpu_memory")?,
    }))
}

/// The list does not count cores; AWS' documentation does, by kind of device.
fn neuron(row: &Row) -> Result<Option<NeuronDevices>> {
    let Some(count) = row.optional_number("accelerator_count")? else { return Ok(None) };
    let name = row.text("accelerator_name")?.to_owned();
    let cores_per_device = match name.as_str() {
        "inferentia" => 4,
        "inferentia2" | "trainium" => 2,
        _ => bail!("{name}: the number of cores of this accelerator is not known here"),
    };
    Ok(Some(NeuronDevices { count, name, cores_per_device }))
}
