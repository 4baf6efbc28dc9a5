//! Images: by id, by SSM parameter, by name and owner, by tags; the newest for each architecture.

use std::collections::BTreeMap;

use aws_sdk_ec2::error::ProvideErrorMetadata;
use aws_sdk_ec2::types::{ArchitectureValues, Image, ImageState};
use outrigger_engine::Rate;
use outrigger_engine::ports::CloudError;
use outrigger_kops::{ImageFacts, ImageReference};
use outrigger_model::ec2_node_class::AmiSelectorTerm;

use super::{SERVICE, filter};
use crate::{Aws, errors, ssm};

/// What EC2 says of an image that is gone, that another account does not share, or whose id is
/// none.
const NO_SUCH_IMAGE: [&str; 3] =
    ["InvalidAMIID.NotFound", "InvalidAMIID.Unavailable", "InvalidAMIID.Malformed"];

/// The images that a kOps image reference stands for, at most one for each architecture.
pub(crate) async fn of_reference(
    aws: &Aws,
    reference: &ImageReference,
) -> Result<Vec<ImageFacts>, CloudError> {
    let images = match reference {
        ImageReference::Id(id) => by_id(aws, id).await?,
        ImageReference::Parameter(name) => by_parameter(aws, name).await?,
        ImageReference::Name { owner, name } => {
            by_filters(aws, std::slice::from_ref(owner), vec![filter("name", [name.as_str()])]).await?
        }
    };
    Ok(newest(images))
}

/// The images that an EC2NodeClass selects, at most one for each architecture.
pub(crate) async fn of_terms(aws: &Aws, terms: &[AmiSelectorTerm]) -> Result<Vec<ImageFacts>, CloudError> {
    let mut images = Vec::new();
    for term in terms {
        images.extend(of_term(aws, term).await?);
    }
    Ok(newest(images))
}

async fn of_term(aws: &Aws, term: &AmiSelectorTerm) -> Result<Vec<Image>, CloudError> {
    if let Some(id) = &term.id {
        return by_id(aws, id).await;
    }
    if let Some(parameter) = &term.ssm_parameter {
        return by_parameter(aws, parameter).await;
    }
    let mut filters: Vec<_> =
        term.tags.iter().map(|(key, value)| super::account::tag_filter(key, value)).collect();
    filters.extend(term.name.as_deref().map(|name| filter("name", [name])));
    // Where a name stands alone, anybody might have published an image of that name.
    let trusted = || vec!["self".to_owned(), "amazon".to_owned()];
    let owners = term.owner.clone().map_or_else(trusted, |owner| vec![owner]);
    by_filters(aws, &owners, filters).await
}

async fn by_parameter(aws: &Aws, name: &str) -> Result<Vec<Image>, CloudError> {
    match ssm::parameter(aws, name).await? {
        Some(id) => by_id(aws, &id).await,
        None => Ok(Vec::new()),
    }
}

/// An image by its id; none where there is no such image. EC2 is asked for the id itself: it shows
/// an image that is shared or deprecated to who names it.
async fn by_id(aws: &Aws, id: &str) -> Result<Vec<Image>, CloudError> {
    let ask = aws.ec2(Rate::Describe).await.describe_images().image_ids(id).include_deprecated(true);
    match ask.send().await {
        Ok(answer) => Ok(answer.images.unwrap_or_default().into_iter().filter(is_available).collect()),
        Err(error) if error.code().is_some_and(|code| NO_SUCH_IMAGE.contains(&code)) => Ok(Vec::new()),
        Err(error) => Err(errors::cloud(SERVICE, "find images", error)),
    }
}

/// Whether instances can be launched from an image: one that is registered or copied cannot be used
/// yet, and one whose snapshot has failed never.
fn is_available(image: &Image) -> bool {
    image.state().is_none_or(|state| *state == ImageState::Available)
}

/// Images by what they are called or tagged, deprecated ones with them: kOps and Karpenter launch
/// these, too.
async fn by_filters(
    aws: &Aws,
    owners: &[String],
    mut filters: Vec<aws_sdk_ec2::types::Filter>,
) -> Result<Vec<Image>, CloudError> {
    filters.push(filter("state", [ImageState::Available.as_str()]));
    let mut pages = aws
        .ec2(Rate::Describe)
        .await
        .describe_images()
        .include_deprecated(true)
        .set_owners((!owners.is_empty()).then(|| owners.to_vec()))
        .set_filters(Some(filters))
        .into_paginator()
        .send();
    let mut images = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| errors::cloud(SERVICE, "find images", error))?;
        aws.next_page().await;
        images.extend(page.images.unwrap_or_default());
    }
    Ok(images)
}

/// For each architecture the image that was made last; deprecated ones only where there is nothing
/// else.
fn newest(mut images: Vec<Image>) -> Vec<ImageFacts> {
    let now = now();
    let rank = |image: &Image| {
        let current = image.deprecation_time().is_none_or(|time| time > now.as_str());
        (
            current,
            image.creation_date().unwrap_or_default().to_owned(),
            image.image_id().unwrap_or_default().to_owned(),
        )
    };
    images.sort_by_cached_key(rank);
    let mut by_arch = BTreeMap::new();
    for image in images.iter().rev() {
        let arch = match image.architecture() {
            Some(ArchitectureValues::X8664) => "amd64",
            Some(ArchitectureValues::Arm64) => "arm64",
            _ => continue,
        };
        by_arch.entry(arch).or_insert_with(|| ImageFacts {
            id: image.image_id().unwrap_or_default().to_owned(),
            arch: arch.to_owned(),
            root_device: image.root_device_name().unwrap_or_default().to_owned(),
        });
    }
    by_arch.into_values().collect()
}

/// EC2 writes times as `2026-11-21T02:42:37.000Z`, which compare as texts.
fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.000Z").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(id: &str, arch: ArchitectureValues, made: &str, deprecated: Option<&str>) -> Image {
        Image::builder()
            .image_id(id)
            .architecture(arch)
            .creation_date(made)
            .set_deprecation_time(deprecated.map(str::to_owned))
            .build()
    }

    #[test]
    fn the_newest_of_each_architecture_is_taken() {
        let images = vec![
            image("ami-old", ArchitectureValues::X8664, "2025-01-01T00:00:00.000Z", None),
            image("ami-new", ArchitectureValues::X8664, "2026-01-01T00:00:00.000Z", None),
            image(
                "ami-gone",
                ArchitectureValues::X8664,
                "2026-02-01T00:00:00.000Z",
                Some("2026-02-02T00:00:00.000Z"),
            ),
            image(
                "ami-arm",
                ArchitectureValues::Arm64,
                "2024-01-01T00:00:00.000Z",
                Some("2025-02-02T00:00:00.000Z"),
            ),
            image("ami-mac", ArchitectureValues::X8664Mac, "2026-03-01T00:00:00.000Z", None),
        ];
        let images: Vec<_> = newest(images).into_iter().map(|image| (image.arch, image.id)).collect();
        assert_eq!(
            images,
            [("amd64".to_owned(), "ami-new".to_owned()), ("arm64".to_owned(), "ami-arm".to_owned())]
        );
    }
}
