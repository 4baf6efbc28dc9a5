//! From the SDK's errors to the ports' errors: refused, or nobody knows.

use aws_sdk_ec2::config::http::HttpResponse;
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use outrigger_engine::ports::{CloudError, LedgerError};

/// What an AWS service made of a request.
pub(crate) enum RequestFate {
    /// It was refused with a code and words, and nothing has happened.
    Refused { code: String, message: String },
    /// No answer, or one that says nothing about what has happened.
    Unknown,
}

/// What an SDK error says of its request. A server fault leaves open whether something has
/// happened; a throttle does not.
pub(crate) fn request_fate<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> RequestFate {
    let SdkError::ServiceError(context) = error else { return RequestFate::Unknown };
    let code = context.err().code().unwrap_or_default();
    if context.raw().status().is_server_error() && !is_throttle(code) {
        return RequestFate::Unknown;
    }
    RequestFate::Refused {
        code: code.to_owned(),
        message: context.err().message().unwrap_or_default().to_owned(),
    }
}

/// Whether a code says that there were too many requests.
fn is_throttle(code: &str) -> bool {
    matches!(
        code,
        "RequestLimitExceeded"
            | "Throttling"
            | "ThrottlingException"
            | "ThrottledException"
            | "RequestThrottled"
            | "RequestThrottledException"
            | "TooManyRequestsException"
            | "SlowDown"
            | "ProvisionedThroughputExceededException"
    )
}

/// The error of a cloud operation.
pub(crate) fn cloud<E>(
    service: &'static str,
    attempted: impl Into<String>,
    error: SdkError<E, HttpResponse>,
) -> CloudError
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let attempted = attempted.into();
    match request_fate(&error) {
        RequestFate::Refused { code, message } => CloudError::Refused { service, attempted, code, message },
        RequestFate::Unknown => CloudError::Unknown { service, attempted, source: Box::new(error) },
    }
}

/// The error of a ledger operation. Whether a throttled write has happened is certain: it has not.
pub(crate) fn ledger<E>(attempted: impl Into<String>, error: SdkError<E, HttpResponse>) -> LedgerError
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let attempted = attempted.into();
    match request_fate(&error) {
        RequestFate::Refused { code, message } => LedgerError::Refused { attempted, code, message },
        RequestFate::Unknown => LedgerError::Unreachable { attempted, source: Box::new(error) },
    }
}
