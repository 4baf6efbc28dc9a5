//! The catalogue: asked of EC2, kept in S3, and read again, or not.

use aws_sdk_s3::primitives::ByteStream;
use outrigger_aws::{Aws, AwsCloud, AwsConfig};
use outrigger_catalog::{PriceSource, Source};
use outrigger_engine::ports::Cloud;
use outrigger_engine::refresh;
use outrigger_model::{CapacityType, Price};

use crate::moto::Rig;

#[tokio::test]
async fn the_catalogue_is_surveyed_kept_and_read_again() {
    let rig = Rig::new().await;
    assert_eq!(rig.cloud.catalog().await.unwrap().source, Source::Embedded);
    let catalog = rig.cloud.survey().await.unwrap();
    assert_eq!((catalog.source, catalog.spot_is_estimate), (Source::Refreshed, false));
    assert_eq!(catalog.on_demand, PriceSource::Embedded, "moto has no Pricing service");
    assert_eq!(refresh::tick(&rig.cloud).await.unwrap().missing, ["prices on demand"]);
    assert!(catalog.types.len() > 700, "{}", catalog.types.len());
    let m5 = catalog.entry("m5.large").unwrap();
    assert_eq!((m5.facts.vcpus, m5.facts.memory_mib, m5.facts.interfaces), (2, 8_192, 3));
    assert_eq!(
        catalog.price("m5.large", "us-east-1a", CapacityType::OnDemand),
        Some(Price::from_nanos(96_000_000))
    );
    rig.cloud.store_catalog(&catalog).await.unwrap();
    assert_eq!(rig.cloud.catalog().await.unwrap(), catalog);
}

#[tokio::test]
async fn a_catalogue_that_cannot_be_read_does_not_stop_work() {
    let rig = Rig::new().await;
    let catalog = rig.cloud.survey().await.unwrap();
    rig.cloud.store_catalog(&catalog).await.unwrap();
    assert_eq!(rig.cloud.catalog().await.unwrap(), catalog);
    let started_anew = |bucket: &str| {
        let location = Some(format!("s3://{bucket}/catalog").parse().unwrap());
        let config =
            AwsConfig { cluster: rig.cluster.clone(), state_store: None, catalog: location, event_bus: None };
        AwsCloud::new(Aws::new(rig.sdk.clone()), config)
    };
    let put = async |name: &str, bytes: &[u8]| {
        let body = ByteStream::from(bytes.to_vec());
        rig.s3.put_object().bucket(&rig.bucket).key(name).body(body).send().await.unwrap();
    };
    put("catalog/catalog-v2", b"a newer version's, which has been rolled back").await;
    assert_eq!(started_anew(&rig.bucket).catalog().await.unwrap(), catalog);
    put("catalog/catalog-v1", b"damaged").await;
    assert_eq!(rig.cloud.catalog().await.unwrap(), catalog, "the last one that was read");
    assert_eq!(started_anew(&rig.bucket).catalog().await.unwrap().source, Source::Embedded);
    assert_eq!(started_anew("no-such-bucket").catalog().await.unwrap().source, Source::Embedded);
    rig.s3.delete_object().bucket(&rig.bucket).key("catalog/catalog-v1").send().await.unwrap();
    put("catalog/catalog", &catalog.encode().unwrap()).await;
    assert_eq!(started_anew(&rig.bucket).catalog().await.unwrap(), catalog, "stored before an upgrade");
}
