//! Which rights a call needs, by the service authorization reference of each service.
//!
//! A call that is not known here is an error: whoever adds one says here what it needs.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::resources::{arn, ec2};
use super::{Account, Call, Need, launches};

/// The rights that a call needs, all of them.
pub fn needs(call: &Call, account: &dyn Account) -> Result<Vec<Need>> {
    let needs = match call.service.as_str() {
        "ec2" => of_ec2(call, account)?,
        "dynamodb" => of_dynamodb(call),
        "s3" => of_s3(call),
        "sqs" => of_sqs(call),
        "ssm" => of_ssm(call),
        "events" => of_events(call),
        service @ ("autoscaling" | "lambda") => {
            Some(vec![Need::new(format!("{service}:{}", call.operation), "*")])
        }
        "pricing" if call.operation == "GetProducts" => Some(vec![Need::new("pricing:GetProducts", "*")]),
        // Nobody needs a right to ask who they are.
        "sts" if call.operation == "GetCallerIdentity" => Some(Vec::new()),
        _ => None,
    };
    needs.with_context(|| {
        let (service, operation) = (&call.service, &call.operation);
        format!("nobody has said which rights {service}:{operation} needs (tests/stack/src/roles/needs.rs)")
    })
}

fn of_ec2(call: &Call, account: &dyn Account) -> Result<Option<Vec<Need>>> {
    let action = format!("ec2:{}", call.operation);
    let on_tagged = |kind: &str, id: &str| -> Result<Option<Need>> {
        // What is not there cannot be asked for its tags: EC2 itself says that it is missing.
        let tags = account.tags(id)?;
        Ok(tags.map(|tags| Need::new(&action, ec2(kind, id)).with_tags("aws:ResourceTag", &tags)))
    };
    let needs: Vec<Option<Need>> = match call.operation.as_str() {
        "CreateFleet" => return launches::fleet(call, account).map(Some),
        "CreateLaunchTemplate" => return Ok(Some(launches::template(call))),
        // Tags of what is there people alone write, whatever it bears.
        "CreateTags" => {
            call.list("ResourceId").map(|id| Some(Need::new(&action, ec2("instance", id)))).collect()
        }
        "TerminateInstances" => {
            call.list("InstanceId").map(|id| on_tagged("instance", id)).collect::<Result<_>>()?
        }
        "GetConsoleOutput" => vec![on_tagged("instance", call.parameter("InstanceId").unwrap_or_default())?],
        "DeleteLaunchTemplate" => {
            let Some(id) = call.parameter("LaunchTemplateId") else {
                bail!("a launch template is deleted by its id, whose tags can be looked up");
            };
            vec![on_tagged("launch-template", id)?]
        }
        // No Describe action knows single resources.
        describe if describe.starts_with("Describe") => vec![Some(Need::new(&action, "*"))],
        _ => return Ok(None),
    };
    Ok(Some(needs.into_iter().flatten().collect()))
}

/// Rights on items are asked for with the partition that each lies in.
fn of_dynamodb(call: &Call) -> Option<Vec<Need>> {
    let on = |action: &str, table: &str, item: Option<&Value>| {
        let need = Need::new(format!("dynamodb:{action}"), arn("dynamodb", &format!("table/{table}")));
        match item.and_then(|item| item["pk"]["S"].as_str()) {
            Some(partition) => need.with("dynamodb:LeadingKeys", partition),
            None => need,
        }
    };
    let (operation, body) = (call.operation.as_str(), &call.body);
    let mut needs: Vec<Need> = match operation {
        "GetItem" | "PutItem" | "UpdateItem" | "DeleteItem" => {
            vec![on(operation, body["TableName"].as_str()?, item_of(body))]
        }
        "Query" => {
            let table = body["TableName"].as_str()?;
            let index = body["IndexName"].as_str().map(|index| format!("{table}/index/{index}"));
            vec![on(operation, index.as_deref().unwrap_or(table), None)]
        }
        "BatchGetItem" => {
            body["RequestItems"].as_object()?.keys().map(|table| on(operation, table, None)).collect()
        }
        "BatchWriteItem" => {
            let tables = body["RequestItems"].as_object()?.iter();
            let requests = tables.flat_map(|(table, requests)| {
                requests
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_object)
                    .flatten()
                    .map(move |(_, one)| (table, one))
            });
            requests.map(|(table, one)| on(operation, table, item_of(one))).collect()
        }
        "TransactWriteItems" => {
            let entries = body["TransactItems"].as_array()?.iter().filter_map(Value::as_object).flatten();
            entries
                .map(|(deed, one)| Some(on(transacted(deed)?, one["TableName"].as_str()?, item_of(one))))
                .collect::<Option<_>>()?
        }
        _ => return None,
    };
    needs.sort();
    needs.dedup();
    Some(needs)
}

/// The item that is written, or the key of the one that is read, changed or deleted.
fn item_of(request: &Value) -> Option<&Value> {
    request.get("Item").or_else(|| request.get("Key"))
}

/// The action that one entry of a transaction is checked for.
fn transacted(deed: &str) -> Option<&'static str> {
    match deed {
        "Put" => Some("PutItem"),
        "Update" => Some("UpdateItem"),
        "Delete" => Some("DeleteItem"),
        "ConditionCheck" => Some("ConditionCheckItem"),
        _ => None,
    }
}

fn of_s3(call: &Call) -> Option<Vec<Need>> {
    let (bucket, key) = &call.object;
    let object = format!("arn:aws:s3:::{bucket}/{key}");
    match call.operation.as_str() {
        "GetObject" => Some(vec![Need::new("s3:GetObject", object)]),
        "PutObject" => Some(vec![Need::new("s3:PutObject", object)]),
        "ListObjectsV2" => Some(vec![Need::new("s3:ListBucket", format!("arn:aws:s3:::{bucket}"))]),
        _ => None,
    }
}

/// One and many are the same right.
fn of_sqs(call: &Call) -> Option<Vec<Need>> {
    let action = match call.operation.as_str() {
        "SendMessage" => "sqs:SendMessage",
        "ChangeMessageVisibilityBatch" => "sqs:ChangeMessageVisibility",
        _ => return None,
    };
    let queue = call.body["QueueUrl"].as_str()?.rsplit('/').next()?;
    Some(vec![Need::new(action, arn("sqs", queue))])
}

/// A name may begin with a slash, which its ARN has once; AWS' own parameters belong to no account.
fn of_ssm(call: &Call) -> Option<Vec<Need>> {
    let action = match call.operation.as_str() {
        "GetParameter" => "ssm:GetParameter",
        "PutParameter" => "ssm:PutParameter",
        _ => return None,
    };
    let name = call.body["Name"].as_str()?.trim_start_matches('/');
    let parameter = arn("ssm", &format!("parameter/{name}"));
    let public = || parameter.replacen(crate::aws::ACCOUNT, "", 1);
    Some(vec![Need::new(action, if name.starts_with("aws/service/") { public() } else { parameter })])
}

fn of_events(call: &Call) -> Option<Vec<Need>> {
    let entries = call.body["Entries"].as_array().filter(|_| call.operation == "PutEvents")?;
    let need = |entry: &Value| {
        let bus = entry["EventBusName"].as_str().unwrap_or("default");
        let need = Need::new("events:PutEvents", arn("events", &format!("event-bus/{bus}")));
        need.with("events:source", entry["Source"].as_str().unwrap_or_default())
            .with("events:detail-type", entry["DetailType"].as_str().unwrap_or_default())
    };
    Some(entries.iter().map(need).collect())
}
