//! Who we are to AWS, for people.

use aws_sdk_sts::operation::get_caller_identity::GetCallerIdentityOutput;

use crate::Aws;

impl Aws {
    /// Who calls: `user/alice`, or `assumed-role/admin/alice`; `None` where AWS does not say.
    /// Nobody needs a right to ask (sts:GetCallerIdentity).
    pub async fn caller(&self) -> Option<String> {
        self.identity().await?.arn().and_then(within_account).map(str::to_owned)
    }

    /// The account's number; `None` where AWS does not say.
    pub async fn account(&self) -> Option<String> {
        self.identity().await?.account().map(str::to_owned)
    }

    async fn identity(&self) -> Option<GetCallerIdentityOutput> {
        let identity = aws_sdk_sts::Client::new(&self.config).get_caller_identity().send().await;
        identity.inspect_err(|error| tracing::debug!(?error, "AWS does not say who calls")).ok()
    }
}

/// What an ARN names within its account.
fn within_account(arn: &str) -> Option<&str> {
    arn.splitn(6, ':').nth(5).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::within_account;

    #[test]
    fn an_account_is_left_out() {
        let table = [
            ("arn:aws:sts::123456789012:assumed-role/admin/alice", Some("assumed-role/admin/alice")),
            ("arn:aws-cn:iam::123456789012:user/team/alice", Some("user/team/alice")),
            ("arn:aws:iam::123456789012:root", Some("root")),
            ("arn:aws:iam::123456789012:", None),
            ("alice", None),
        ];
        for (arn, expected) in table {
            assert_eq!(within_account(arn), expected, "{arn}");
        }
    }
}
