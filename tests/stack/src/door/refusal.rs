//! Refusals, in the form of the service that is asked.

use std::fmt;

use serde_json::json;

use crate::aws::ACCOUNT;
use crate::ec2::Fault;
use crate::http::Forwarded;
use crate::roles::Need;

/// Why a call is not taken.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    status: u16,
    kind: Kind,
    message: String,
}

#[derive(Clone, Debug)]
enum Kind {
    /// Nobody may do what no policy allows; each service has a code of its own for it.
    Denied,
    Unsigned,
    UnknownCaller,
    Silence,
    Ec2(String),
}

impl Refusal {
    pub(super) fn denied(caller: &str, need: &Need) -> Self {
        let Need { action, resource, context } = need;
        let message = format!(
            "User: arn:aws:sts::{ACCOUNT}:assumed-role/{caller}/{caller} is not authorized to perform: {action} on resource: \
             {resource} because no identity-based policy allows the {action} action; {context:?}"
        );
        Self { status: 403, kind: Kind::Denied, message }
    }

    pub(super) fn unsigned(why: &str) -> Self {
        Self { status: 403, kind: Kind::Unsigned, message: why.to_owned() }
    }

    pub(super) fn unknown_caller(caller: &str) -> Self {
        let message = format!("the access key id {caller:?} is no function's");
        Self { status: 403, kind: Kind::UnknownCaller, message }
    }

    pub(super) fn silence(why: &str) -> Self {
        Self { status: 503, kind: Kind::Silence, message: why.to_owned() }
    }

    /// Nobody knows what the call needs, so nobody may make it.
    pub(super) fn unjudged(why: &str) -> Self {
        Self { status: 403, kind: Kind::Denied, message: why.to_owned() }
    }

    pub(super) fn of_ec2(fault: &Fault) -> Self {
        Self { status: 400, kind: Kind::Ec2(fault.code.to_owned()), message: fault.message.clone() }
    }

    fn code(&self, service: &str) -> &str {
        match (&self.kind, service) {
            (Kind::Ec2(code), _) => code,
            (Kind::Denied, "ec2") => "UnauthorizedOperation",
            (Kind::Denied, "s3") => "AccessDenied",
            (Kind::Denied, _) => "AccessDeniedException",
            (Kind::Unsigned, _) => "MissingAuthenticationToken",
            (Kind::UnknownCaller, "ec2") => "AuthFailure",
            (Kind::UnknownCaller, "s3") => "InvalidAccessKeyId",
            (Kind::UnknownCaller, _) => "UnrecognizedClientException",
            (Kind::Silence, "ec2" | "s3") => "Unavailable",
            (Kind::Silence, _) => "InternalServerError",
        }
    }

    /// The answer as the service writes it.
    pub(super) fn answer(&self, service: &str) -> Forwarded {
        let (code, message) = (self.code(service), &self.message);
        let (content, body) = match service {
            "ec2" | "sts" => {
                let error =
                    format!("<Error><Code>{code}</Code><Message>{}</Message></Error>", escape(message));
                (
                    "text/xml",
                    format!("<Response><Errors>{error}</Errors><RequestID>door</RequestID></Response>"),
                )
            }
            "s3" => {
                let error =
                    format!("<Error><Code>{code}</Code><Message>{}</Message></Error>", escape(message));
                ("application/xml", error)
            }
            _ => {
                let body = json!({"__type": format!("com.amazonaws#{code}"), "message": message});
                ("application/x-amz-json-1.0", body.to_string())
            }
        };
        // JSON services say with 400 what the others say with 403.
        let is_json = content.ends_with("json-1.0");
        let status = if self.status == 403 && is_json { 400 } else { self.status };
        let headers = vec![("content-type".to_owned(), content.to_owned())];
        Forwarded { status, headers, body: body.into_bytes() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
