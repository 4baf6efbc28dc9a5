//! DescribeInstanceStatus: checks that fail, and what EC2 is going to do to instances.

use aws_sdk_ec2::primitives::DateTime;
use aws_sdk_ec2::types::{
    EventCode, InstanceStatusDetails, InstanceStatusEvent, InstanceStatusSummary, StatusType,
};
use jiff::Timestamp;
use outrigger_engine::Rate;
use outrigger_engine::ports::{CloudError, InstanceProblem, InstanceStatus};

use super::SERVICE;
use crate::{Aws, errors};

/// The largest page that EC2 gives.
const PAGE: i32 = 1_000;
/// How EC2 marks, in the description, events that are over. They stay in the answer for a week.
const OVER: [&str; 2] = ["[Completed]", "[Canceled]"];

/// What is wrong with the running instances of the account, in order of id. One page that fails
/// fails the whole.
///
/// EC2 knows no filter by tag here, and its filters by status are ANDed, so that one unfiltered
/// question is asked.
pub(crate) async fn unwell(aws: &Aws) -> Result<Vec<InstanceStatus>, CloudError> {
    let mut pages =
        aws.ec2(Rate::Describe).await.describe_instance_status().max_results(PAGE).into_paginator().send();
    let mut statuses = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| errors::cloud(SERVICE, "describe how instances are", error))?;
        aws.next_page().await;
        for status in page.instance_statuses() {
            let id = status.instance_id().unwrap_or_default();
            let problems = problems(status).into_iter();
            statuses.extend(problems.map(|problem| InstanceStatus { id: id.to_owned(), problem }));
        }
    }
    statuses.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(statuses)
}

fn problems(status: &aws_sdk_ec2::types::InstanceStatus) -> Vec<InstanceProblem> {
    let failures = |whose: &'static str, summary: Option<&InstanceStatusSummary>| {
        let details = summary.map(InstanceStatusSummary::details).unwrap_or_default();
        details.iter().filter_map(|detail| failed(whose, detail)).collect::<Vec<_>>()
    };
    let mut problems = failures("instance", status.instance_status());
    problems.extend(failures("system", status.system_status()));
    problems.extend(status.events().iter().filter_map(planned));
    problems
}

/// A check that fails. One of which EC2 does not say since when is not counted until it does.
fn failed(whose: &str, detail: &InstanceStatusDetails) -> Option<InstanceProblem> {
    if detail.status() != Some(&StatusType::Failed) {
        return None;
    }
    let name = detail.name().map(|name| name.as_str().to_owned()).unwrap_or_default();
    Some(InstanceProblem::Impaired {
        check: format!("{whose} {name}").trim_end().to_owned(),
        since: time(detail.impaired_since()?)?,
    })
}

/// An event after which the machine is not what it was.
fn planned(event: &InstanceStatusEvent) -> Option<InstanceProblem> {
    let code = event.code()?;
    let counts = matches!(
        code,
        EventCode::InstanceReboot
            | EventCode::SystemReboot
            | EventCode::SystemMaintenance
            | EventCode::InstanceRetirement
            | EventCode::InstanceStop
    );
    let description = event.description().unwrap_or_default();
    if !counts || OVER.iter().any(|mark| description.starts_with(mark)) {
        return None;
    }
    let at = event.not_before().and_then(time);
    Some(InstanceProblem::Planned { event: code.as_str().to_owned(), at })
}

fn time(time: &DateTime) -> Option<Timestamp> {
    Timestamp::from_second(time.secs()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_sdk_ec2::types::StatusName;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn check(status: StatusType, since: Option<i64>) -> InstanceStatusSummary {
        let detail = InstanceStatusDetails::builder()
            .name(StatusName::Reachability)
            .status(status)
            .set_impaired_since(since.map(DateTime::from_secs));
        InstanceStatusSummary::builder().details(detail.build()).build()
    }

    #[test]
    fn failed_checks_and_open_events_count() {
        let event = |code: EventCode, description: &str| {
            let event = InstanceStatusEvent::builder().code(code).description(description);
            event.not_before(DateTime::from_secs(900)).build()
        };
        let status = |system, events: Vec<InstanceStatusEvent>| {
            let status = aws_sdk_ec2::types::InstanceStatus::builder()
                .instance_status(check(StatusType::Passed, None))
                .system_status(system)
                .set_events(Some(events));
            problems(&status.build())
        };
        let well = || check(StatusType::Passed, None);
        let impaired = InstanceProblem::Impaired { check: "system reachability".into(), since: at(60) };
        assert_eq!(status(check(StatusType::Failed, Some(60)), Vec::new()), [impaired]);
        assert_eq!(status(check(StatusType::Failed, None), Vec::new()), []);
        assert_eq!(status(check(StatusType::InsufficientData, Some(60)), Vec::new()), []);
        assert_eq!(status(check(StatusType::Initializing, Some(60)), Vec::new()), []);
        for (code, description, counts) in [
            (EventCode::InstanceRetirement, "The instance is running on degraded hardware", true),
            (EventCode::InstanceStop, "", true),
            (EventCode::InstanceReboot, "", true),
            (EventCode::SystemReboot, "", true),
            (EventCode::SystemMaintenance, "", true),
            (EventCode::InstanceStop, "[Completed] The instance", false),
            (EventCode::SystemReboot, "[Canceled] scheduled reboot", false),
            (EventCode::from("asset-cleaning"), "", false),
        ] {
            let planned = InstanceProblem::Planned { event: code.as_str().into(), at: Some(at(900)) };
            let expected: Vec<_> = counts.then_some(planned).into_iter().collect();
            assert_eq!(
                status(well(), vec![event(code.clone(), description)]),
                expected,
                "{code} {description}"
            );
        }
    }
}
