//! The images of an InstanceGroup: its own, and those that annotations name for other
//! architectures.
//!
//! kOps gives a group one image, and with it one architecture. Its boot script and nodeup's
//! configuration serve both, and a fleet request names the image beside the type, so a second image
//! is all that a second architecture needs.

use std::collections::BTreeMap;

use outrigger_model::{Image, Invalid, labels};

use crate::account::{AccountFacts, ImageReference};
use crate::error::{KopsError, refuse};
use crate::spec::InstanceGroup;

/// How a group names its image.
pub(crate) fn reference(group: &InstanceGroup) -> Result<ImageReference, KopsError> {
    read(group, "spec.image", &group.spec.image)
}

/// How its annotations name the images for other architectures, by architecture.
pub(crate) fn second_references(
    group: &InstanceGroup,
) -> Result<BTreeMap<String, ImageReference>, KopsError> {
    let read = |(arch, image): (&str, &str)| Ok((arch.to_owned(), read(group, &annotation(arch), image)?));
    group.second_images().map(read).collect()
}

/// One image for each architecture in order of architecture, and why one is missing.
pub(crate) fn of_group(
    group: &InstanceGroup,
    account: &AccountFacts,
) -> Result<(Vec<Image>, Option<String>), KopsError> {
    let images = account.images.iter().rev().map(|image| (image.arch.as_str(), image.id.as_str()));
    let mut by_arch: BTreeMap<&str, &str> = images.collect();
    let mut missing = by_arch.is_empty().then(|| none_found("spec.image", &group.spec.image));
    let mut problems = Vec::new();
    for (arch, written) in group.second_images() {
        let candidates = account.second_images.get(arch).map_or(&[][..], Vec::as_slice);
        match second(account, arch, candidates) {
            Ok(Some(id)) => drop(by_arch.insert(arch, id)),
            Ok(None) => missing = missing.or_else(|| Some(none_found(&annotation(arch), written))),
            Err((seen, allowed)) => {
                let value = format!("{written:?}{seen}");
                problems.push(Invalid::new(group.label(), annotation(arch), value, allowed));
            }
        }
    }
    refuse(problems)?;
    let image = |(arch, id): (&str, &str)| Image { id: id.to_owned(), arch: arch.to_owned() };
    Ok((by_arch.into_iter().map(image).collect(), missing))
}

/// The id of a second image; `None` where there is none, and an error where it cannot stand beside
/// the group's own: what was seen of it, and what is allowed.
fn second<'a>(
    account: &AccountFacts,
    arch: &str,
    candidates: &'a [crate::ImageFacts],
) -> Result<Option<&'a str>, (String, String)> {
    if account.images.iter().any(|image| image.arch == arch) {
        return Err((String::new(), format!("nothing: spec.image is the one for {arch}")));
    }
    let Some(image) = candidates.iter().find(|image| image.arch == arch) else {
        return match candidates.first() {
            Some(other) => Err((format!(", which is for {}", other.arch), format!("an image for {arch}"))),
            None => Ok(None),
        };
    };
    // Launch templates say how large the root volume is by the name of its device.
    let device = account.images.first().map(|image| image.root_device.as_str());
    match device.filter(|device| *device != image.root_device) {
        Some(device) => Err((
            format!(", whose root device is {}", image.root_device),
            format!("an image whose root device is {device}, as that of spec.image"),
        )),
        None => Ok(Some(&image.id)),
    }
}

fn annotation(arch: &str) -> String {
    format!("metadata.annotations[{}{arch}]", labels::IMAGE_ANNOTATION)
}

fn none_found(field: &str, image: &str) -> String {
    format!("no image was found for {field} {image:?}")
}

/// kOps' ways to name an image (`upup/pkg/fi/cloudup/awsup/aws_cloud.go`, its account aliases
/// included).
fn read(group: &InstanceGroup, field: &str, image: &str) -> Result<ImageReference, KopsError> {
    if image.starts_with("ami-") {
        return Ok(ImageReference::Id(image.to_owned()));
    }
    if let Some(parameter) = image.strip_prefix("ssm:") {
        return Ok(ImageReference::Parameter(parameter.to_owned()));
    }
    let (owner, name) = image.split_once('/').unwrap_or(("self", image));
    if name.is_empty() {
        let allowed = "ami-…, ssm:<parameter>, <name> or <owner>/<name>";
        refuse(vec![Invalid::new(group.label(), field, format!("{image:?}"), allowed)])?;
    }
    let owner = match owner {
        "amazon" | "amazon.com" => "137112412989",
        "debian" | "debian10" | "debian11" | "debian12" | "debian13" => "136693071363",
        "flatcar" => "075585003325",
        "redhat" | "redhat.com" => "309956199498",
        "ubuntu" => "099720109477",
        other => other,
    };
    Ok(ImageReference::Name { owner: owner.to_owned(), name: name.to_owned() })
}
