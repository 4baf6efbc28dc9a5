"""Makes a stack of a packaged template on moto's CloudFormation, and prints what came of it.

SAM's own translator makes resources of the template, as CloudFormation's transform does. Conditions
are decided here: moto leaves a null where Fn::If takes an element out of a list.

Arguments: the template as JSON, moto's address, the stack's name, its parameters as JSON.
"""

import hashlib
import io
import json
import sys
import zipfile

import boto3
from samtranslator.translator.transform import transform

NOTHING = object()


class Template:
    """A template whose parameters have values."""

    def __init__(self, template, parameters):
        self.template = template
        declared = template["Parameters"].items()
        self.values = {name: str(one.get("Default", "")) for name, one in declared} | parameters

    def value(self, expression):
        if not isinstance(expression, dict):
            return expression
        ((function, argument),) = expression.items()
        if function == "Ref":
            return self.values[argument]
        if function == "Fn::Join":
            return argument[0].join(self.value(one) for one in argument[1])
        raise ValueError(f"a condition has {function}, which nobody has needed yet")

    def holds(self, condition):
        if isinstance(condition, str):
            return self.holds(self.template["Conditions"][condition])
        ((function, argument),) = condition.items()
        if function == "Condition":
            return self.holds(argument)
        if function == "Fn::Equals":
            return self.value(argument[0]) == self.value(argument[1])
        if function == "Fn::Not":
            return not self.holds(argument[0])
        if function in ("Fn::And", "Fn::Or"):
            return {"Fn::And": all, "Fn::Or": any}[function](self.holds(one) for one in argument)
        raise ValueError(f"a condition is made with {function}, which nobody has needed yet")

    def decided(self, part):
        """A part of the template without conditions, and without what has no value."""
        if part == {"Ref": "AWS::NoValue"}:
            return NOTHING
        if isinstance(part, dict):
            if set(part) == {"Fn::If"}:
                condition, then, otherwise = part["Fn::If"]
                return self.decided(then if self.holds(condition) else otherwise)
            decided = {name: self.decided(one) for name, one in part.items()}
            return {name: one for name, one in decided.items() if one is not NOTHING}
        if isinstance(part, list):
            return [one for one in map(self.decided, part) if one is not NOTHING]
        return part

    def resources(self):
        made = {}
        for name, resource in self.template["Resources"].items():
            if "Condition" not in resource or self.holds(resource["Condition"]):
                made[name] = self.decided({key: part for key, part in resource.items() if key != "Condition"})
        return made


def main(path, endpoint, stack, parameters):
    with open(path, encoding="utf-8") as file:
        template = transform(json.load(file), parameters, dict)
    template["Resources"] = Template(template, parameters).resources()
    settings = {"endpoint_url": endpoint, "region_name": "us-east-1"}
    cloudformation, functions, s3 = (
        boto3.client(service, **settings) for service in ("cloudformation", "lambda", "s3")
    )
    cloudformation.create_stack(
        StackName=stack,
        TemplateBody=json.dumps(template),
        Parameters=[{"ParameterKey": name, "ParameterValue": one} for name, one in parameters.items()],
        Capabilities=["CAPABILITY_IAM"],
    )
    resources = {}
    for one in cloudformation.describe_stack_resources(StackName=stack)["StackResources"]:
        # What moto does not know has no name, and neither have permissions.
        if one.get("LogicalResourceId") and one.get("PhysicalResourceId"):
            resources[one["LogicalResourceId"]] = one["PhysicalResourceId"]
    made = {}
    for name, resource in template["Resources"].items():
        if resource["Type"] == "AWS::Lambda::Function":
            made[name] = function(functions, s3, resources[name], resource["Properties"]["Code"])
    described = cloudformation.describe_stacks(StackName=stack)["Stacks"]
    types = {name: resource["Type"] for name, resource in template["Resources"].items()}
    answer = {"types": types, "resources": resources, "functions": made, "described": {"Stacks": described}}
    print(json.dumps(answer, default=str))


def function(functions, s3, name, code):
    """What the account has of a function, and the digest of the program in its package."""
    configuration = functions.get_function(FunctionName=name)["Configuration"]
    package = s3.get_object(Bucket=code["S3Bucket"], Key=code["S3Key"])["Body"].read()
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        bootstrap = hashlib.sha256(archive.read("bootstrap")).hexdigest()
    return {
        # Lambda takes texts alone, and moto what it is given.
        "environment": {key: str(value) for key, value in configuration["Environment"]["Variables"].items()},
        "memory": configuration["MemorySize"],
        "timeout": configuration["Timeout"],
        "bootstrap": bootstrap,
    }


main(sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))
