//! What DynamoDB takes: 100 items and 4 MB in a transaction, 400 KB in an item.

use outrigger_engine::ports::{LedgerError, PreparedLaunch};
use outrigger_model::NodeClaim;

/// The most bytes of one item.
const MAX_ITEM: usize = 400 * 1024;
/// The most bytes of one transaction.
const MAX_TRANSACTION: usize = 4 * 1024 * 1024;
/// Claims with fewer pods than this are far below the limits, and are not measured.
const FEW_PODS: usize = 50;

/// Refuses a transaction over more claims than fit, or over larger ones.
pub(crate) fn check(claims: &[NodeClaim]) -> Result<(), LedgerError> {
    if claims.len() > PreparedLaunch::MAX_CLAIMS {
        return refuse(format!("a transaction takes 100 items, this one has {} claims", claims.len()));
    }
    if claims.iter().map(|claim| claim.status.nominated.len()).sum::<usize>() < FEW_PODS {
        return Ok(());
    }
    let sizes: Vec<usize> = claims.iter().map(bytes).collect();
    match (sizes.iter().max(), sizes.iter().sum::<usize>()) {
        (Some(largest), _) if *largest > MAX_ITEM => {
            refuse(format!("an item of {largest} bytes is too large"))
        }
        (_, all) if all > MAX_TRANSACTION => refuse(format!("a transaction of {all} bytes is too large")),
        _ => Ok(()),
    }
}

fn bytes(claim: &NodeClaim) -> usize {
    serde_json::to_string(claim).map_or(usize::MAX / 2, |json| json.len())
}

fn refuse(message: String) -> Result<(), LedgerError> {
    Err(LedgerError::Refused {
        attempted: "write claims".into(),
        code: "ValidationException".into(),
        message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use outrigger_model::fixtures::{claim, nominated};

    #[test]
    fn items_and_transactions_have_their_sizes() {
        let with_pods = |count: usize| {
            let pods = (0..count).map(|index| nominated(&format!("{index:0>250}"))).collect();
            claim().with_status(|status| status.nominated = pods)
        };
        assert!(check(&vec![claim(); 97]).is_ok() && check(&vec![claim(); 98]).is_err());
        assert!(check(&[with_pods(110)]).is_ok() && check(&[with_pods(2_000)]).is_err());
        assert!(check(&vec![with_pods(110); 30]).is_ok() && check(&vec![with_pods(110); 97]).is_err());
    }
}
