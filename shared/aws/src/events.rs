//! Notices on EventBridge: they ring other functions' bells, and users may subscribe to them.

use aws_sdk_eventbridge::types::PutEventsRequestEntry;
use outrigger_engine::ports::{CloudError, Notice};
use serde_json::Value;

use crate::{Aws, errors};

const SERVICE: &str = "EventBridge";
/// What rules match on.
const SOURCE: &str = "outrigger";
/// Raised when a field of the detail changes its meaning or goes away.
const DETAIL_VERSION: u32 = 1;

/// Sends a notice to a bus, the account's default one when `bus` is `None`.
pub(crate) async fn publish(aws: &Aws, bus: Option<&str>, notice: &Notice) -> Result<(), CloudError> {
    let attempted = || format!("publish {:?}", notice.kind);
    let entry = PutEventsRequestEntry::builder()
        .source(SOURCE)
        .detail_type(notice.kind)
        .detail(detail(notice)?)
        .set_event_bus_name(bus.map(str::to_owned))
        .build();
    let answer = aws.events.put_events().entries(entry).send().await;
    let answer = answer.map_err(|error| errors::cloud(SERVICE, attempted(), error))?;
    match answer.entries().iter().find(|entry| entry.error_code().is_some()) {
        None => Ok(()),
        Some(failed) => Err(CloudError::Refused {
            service: SERVICE,
            attempted: attempted(),
            code: failed.error_code().unwrap_or_default().to_owned(),
            message: failed.error_message().unwrap_or_default().to_owned(),
        }),
    }
}

fn detail(notice: &Notice) -> Result<String, CloudError> {
    let unusable = |why: String| CloudError::Unusable { what: format!("notice {:?}", notice.kind), why };
    let mut detail = serde_json::to_value(notice).map_err(|error| unusable(error.to_string()))?;
    let fields = detail.as_object_mut().ok_or_else(|| unusable("it is not an object".into()))?;
    fields.insert("version".to_owned(), Value::from(DETAIL_VERSION));
    Ok(detail.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_detail_is_versioned() {
        let notice = Notice {
            kind: "NodeClaims Launched",
            cluster: "k8s.example.com".into(),
            claims: vec!["general-1".into()],
            detail: BTreeMap::from([("intent".to_owned(), Value::from("i1"))]),
        };
        insta::assert_snapshot!(detail(&notice).unwrap(), @r#"{"claims":["general-1"],"cluster":"k8s.example.com","intent":"i1","version":1}"#);
    }
}
