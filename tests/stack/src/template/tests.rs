//! A small template with all that the real one uses.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;

const SMALL: &str = r#"
Parameters:
  Name: { Type: String }
  Prefix: { Type: String, Default: "" }
  Size: { Type: Number, Default: 5, AllowedValues: [5, 10] }
  Keys: { Type: CommaDelimitedList, Default: "" }
Conditions:
  HasPrefix: !Not [!Equals [!Ref Prefix, ""]]
  HasKeys: !Not [!Equals [!Join ["", !Ref Keys], ""]]
Globals:
  Function:
    MemorySize: !Ref Size
    Environment:
      Variables:
        PLACE: !If [HasPrefix, !Sub "s3://${Name}/${Prefix}", !Sub "s3://${Name}"]
        TABLE: !Ref Table
        SIZE: !Ref Size
Resources:
  Shared:
    Properties:
      PolicyDocument:
        Statement:
          - { Effect: Allow, Action: "d:Get", Resource: !GetAtt Table.Arn }
          - !If
            - HasKeys
            - { Effect: Allow, Action: "k:Use", Resource: !Ref Keys }
            - !Ref AWS::NoValue
  ProvisionFunction:
    Properties:
      MemorySize: 512
      Environment: { Variables: { SIZE: own, OWN: !Join ["/", !Split ["//", !Sub "a/${Prefix}"]], SECOND: !Sub ["${One}/${Name}", { One: !Select [1, !Split [",", "a,b"]] }] } }
      Policies:
        - !Ref Shared
        - Statement: [{ Effect: Allow, Action: "e:Put", Resource: !Sub "${Table.Arn}/${AWS::Region}" }]
  RefreshFunction:
    Properties: { Policies: [] }
Outputs:
  Role:
    Description: Map it to the groups outrigger:a, outrigger:b (both).
    Value: !GetAtt ProvisionFunctionRole.Arn
"#;

fn deploy(parameters: &[(&str, &str)]) -> Result<Deployed> {
    let parameters =
        parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let one = |value: &str| BTreeMap::from([("Table".to_owned(), value.to_owned())]);
    Template::parse(SMALL)?.deploy(&parameters, Resources { names: one("t-1"), arns: one("arn:t-1") })
}

#[test]
fn a_function_has_the_environment_of_all_and_its_own() {
    let environment =
        |parameters: &[(&str, &str)], function| deploy(parameters).unwrap().environment(function).unwrap();
    let of_all =
        [("PLACE", "s3://n"), ("SIZE", "5"), ("TABLE", "t-1")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!(environment(&[("Name", "n")], "refresh"), BTreeMap::from(of_all));
    let own = environment(&[("Name", "n"), ("Prefix", "/p")], "provision");
    assert_eq!(
        (own["PLACE"].as_str(), own["SIZE"].as_str(), own["OWN"].as_str()),
        ("s3://n//p", "own", "a/p")
    );
    assert_eq!(own["SECOND"], "b/n");
    let deployed = deploy(&[("Name", "n")]).unwrap();
    assert_eq!((deployed.memory("provision").unwrap(), deployed.memory("refresh").unwrap()), (512, 5));
}

#[test]
fn a_statement_may_stand_on_a_condition() {
    let grants = |parameters: &[(&str, &str)]| -> BTreeSet<String> {
        let role = deploy(parameters).unwrap().role("provision").unwrap();
        role.grants().map(|(action, resource)| format!("{action} {resource}")).collect()
    };
    let always = ["d:Get arn:t-1", "e:Put arn:t-1/us-east-1"].map(str::to_owned);
    assert_eq!(grants(&[("Name", "n")]), BTreeSet::from(always));
    let with_keys = grants(&[("Name", "n"), ("Keys", "a, b")]);
    assert!(with_keys.contains("k:Use a") && with_keys.contains("k:Use b"), "{with_keys:?}");
}

#[test]
fn a_role_is_mapped_to_the_groups_that_an_output_names() {
    let deployed = deploy(&[("Name", "n")]).unwrap();
    let groups: Vec<String> = deployed.groups("provision").unwrap().into_iter().collect();
    assert_eq!(groups, ["outrigger:a", "outrigger:b"]);
    assert!(deployed.groups("refresh").unwrap().is_empty());
}

#[test]
fn what_is_not_known_is_refused() {
    for (parameters, named) in [
        (&[][..], "parameter Name has no default"),
        (&[("Name", "n"), ("Colour", "red")], "no parameter Colour"),
        (&[("Name", "n"), ("Size", "7")], "parameter Size is \"7\""),
    ] {
        let error = deploy(parameters).unwrap_err().to_string();
        assert!(error.contains(named), "{named} in {error}");
    }
    let deployed = deploy(&[("Name", "n")]).unwrap();
    for (value, named) in [
        (json!({"Fn::Cidr": ["10.0.0.0/8", 1]}), "Fn::Cidr"),
        (json!({"Fn::Select": [1, ["a"]]}), "no item 1"),
        (json!({"Ref": "Bucket"}), "!Ref Bucket"),
        (json!({"Fn::GetAtt": ["Table", "StreamArn"]}), "StreamArn"),
        (json!({"Fn::If": ["HasNothing", 1, 2]}), "HasNothing"),
        (json!({"Fn::Sub": "${Name"}), "open brace"),
    ] {
        let error = deployed.resolve(&value).unwrap_err().to_string();
        assert!(error.contains(named), "{named} in {error}");
    }
}
