//! The catalogue of instance types: EC2's facts about each, the labels and the room for pods that
//! follow from them, and where and for how much each is sold.
//!
//! [`Catalog::embedded`] serves where no AWS answers; `refresh` replaces it by what EC2 says.
//! Either way [`Catalog::instance_types`] makes of it what a node class can launch.

pub mod allocatable;
pub mod catalog;
pub mod embedded;
pub mod error;
pub mod facts;
pub mod file;
pub mod labels;
pub mod offerings;
pub mod prices;

mod attachments;
mod resolve;
mod wire;

pub use allocatable::NodeResources;
pub use attachments::complete_volumes;
pub use catalog::{Catalog, PriceSource, Source, TypeEntry};
pub use error::CatalogError;
pub use facts::{EbsAttachments, Gpus, InstanceTypeFacts, NeuronDevices};
pub use file::read_file;
