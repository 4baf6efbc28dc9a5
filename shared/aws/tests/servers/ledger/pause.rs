//! An operator's pause: the last word counts, even one whose answer was lost.

use outrigger_engine::ports::{Ledger, OperatorPause};
use outrigger_model::{Pause, PauseScope};

use super::bound;
use crate::support::at;

#[tokio::test]
async fn the_last_word_on_a_pause_counts() {
    let rig = bound().await;
    let pause = |until| {
        let (by, reason, what) = ("user/alice".into(), Some("upgrade".into()), PauseScope::Disruption);
        Pause { by, reason, since: at(10), until, what }
    };
    rig.ledger.put_pause(None).await.unwrap();
    assert_eq!(rig.ledger.pause().await.unwrap(), None);
    let (ledger, proxy) = rig.through_proxy("PutItem").await;
    for until in [Some(at(90)), None, Some(at(70))] {
        proxy.lose_next(1);
        ledger.put_pause(Some(&pause(until))).await.unwrap();
        assert_eq!(rig.ledger.pause().await.unwrap(), Some(pause(until)));
        assert_eq!(rig.ledger.load().await.unwrap().pause, Some(pause(until)));
    }
    let (ledger, proxy) = rig.through_proxy("DeleteItem").await;
    proxy.lose_next(1);
    ledger.put_pause(None).await.unwrap();
    assert_eq!(rig.ledger.load().await.unwrap().pause, None);
}
