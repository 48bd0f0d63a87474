//! Replies that are lost, cut, late, slow, garbled, or waited for by nobody.

use std::time::Duration;

use limiter_core::Cost;
use limiter_store_tests::{
    DEADLINE, PATIENT, Stage, bucket, faults_on_clients_and_servers, key, layout, recovers, spend,
    spent,
};
use limiter_testkit::proxy::{Direction, Ending, ReplyFault, ReplyRule, Toxic};
use tokio::time::sleep;

use crate::RECOVERY;

faults_on_clients_and_servers! {
    swallowed_reply_is_charged_once_and_said
    reset_in_the_middle_of_a_reply
    reply_after_the_deadline
    one_byte_at_a_time
    garbage_reply
    cancelled_callers_get_nobody_elses_reply
}

async fn swallowed_reply_is_charged_once_and_said(stage: &Stage) {
    for ending in [Ending::Hang, Ending::Close, Ending::Reset] {
        let (server, proxy) = stage.proxied().await;
        let (layout, gold) = (layout(), bucket(10));
        let store = stage
            .client
            .store(&server.url_at(proxy.addr()), &layout, DEADLINE);
        recovers(&store, &gold, RECOVERY).await;
        proxy.add_rule(ReplyRule::next(1, ReplyFault::Lost(ending)).to_command("EVALSHA"));
        let error = spend(&store, &key("ann"), &gold)
            .await
            .expect_err("the reply is lost");
        assert!(
            error.is_outage() && error.may_have_charged(),
            "{ending:?}: {error:?}"
        );
        sleep(Duration::from_millis(300)).await;
        let direct = stage.client.store(&server.url(), &layout, PATIENT);
        assert_eq!(spent(&direct, &key("ann"), &gold).await, 1, "{ending:?}");
        proxy.heal();
        recovers(&store, &gold, RECOVERY).await;
    }
}

async fn reset_in_the_middle_of_a_reply(stage: &Stage) {
    let (server, proxy) = stage.proxied().await;
    let (layout, gold) = (layout(), bucket(1000));
    let store = stage
        .client
        .store(&server.url_at(proxy.addr()), &layout, DEADLINE);
    recovers(&store, &gold, RECOVERY).await;
    for bytes in [1, 5, 12] {
        proxy.add_rule(ReplyRule::next(1, ReplyFault::CutAfter { bytes }).to_command("EVALSHA"));
        let error = spend(&store, &key("ann"), &gold)
            .await
            .expect_err("half a reply");
        assert!(error.is_outage() && error.may_have_charged(), "{error:?}");
        recovers(&store, &gold, RECOVERY).await;
    }
    assert_eq!(spent(&store, &key("ann"), &gold).await, 3);
}

async fn reply_after_the_deadline(stage: &Stage) {
    let (server, proxy) = stage.proxied().await;
    let (layout, gold) = (layout(), bucket(1000));
    let store = stage
        .client
        .store(&server.url_at(proxy.addr()), &layout, DEADLINE);
    recovers(&store, &gold, RECOVERY).await;
    let late = ReplyFault::Late(Duration::from_millis(120));
    proxy.add_rule(ReplyRule::next(1, late).to_command("EVALSHA"));
    let error = spend(&store, &key("ann"), &gold)
        .await
        .expect_err("a late reply");
    assert!(error.is_outage() && error.may_have_charged(), "{error:?}");
    recovers(&store, &gold, RECOVERY).await;
    // The late reply went to nobody: the next caller gets its own.
    assert_eq!(spent(&store, &key("bob"), &bucket(5)).await, 0);
    assert_eq!(spent(&store, &key("ann"), &gold).await, 1);
}

async fn one_byte_at_a_time(stage: &Stage) {
    let (server, proxy) = stage.proxied().await;
    let gold = bucket(100);
    let store = stage
        .client
        .store(&server.url_at(proxy.addr()), &layout(), PATIENT);
    recovers(&store, &gold, RECOVERY).await;
    proxy.add(Direction::Both, Toxic::ONE_BYTE_SLICES);
    for remaining in (80..100).rev() {
        let said = store
            .try_acquire(&key("ann"), std::slice::from_ref(&gold), Cost::ONE)
            .await
            .expect("an answer");
        assert_eq!(said.plans[0].remaining, remaining);
    }
}

async fn garbage_reply(stage: &Stage) {
    let (server, proxy) = stage.proxied().await;
    let gold = bucket(100);
    let store = stage
        .client
        .store(&server.url_at(proxy.addr()), &layout(), DEADLINE);
    recovers(&store, &gold, RECOVERY).await;
    for garbage in [
        "+OK\r\n",
        "$5\r\nhello\r\n",
        ":7\r\n",
        "*-1\r\n",
        "$-1\r\n",
        "?!\r\n",
    ] {
        let rule = ReplyRule::next(1, ReplyFault::Garbage(garbage.into()));
        proxy.add_rule(rule.to_command("EVALSHA"));
        let error = spend(&store, &key("ann"), &gold).await.expect_err(garbage);
        assert!(
            error.is_outage() && error.may_have_charged(),
            "{garbage:?}: {error:?}"
        );
        recovers(&store, &gold, RECOVERY).await;
    }
}

/// Callers are dropped at random moments; each of those that stay has a bucket of its own size, and so sees at once if the
/// reply was another's.
async fn cancelled_callers_get_nobody_elses_reply(stage: &Stage) {
    let server = stage.server();
    let store = stage.client.store(&server.url(), &layout(), PATIENT);
    recovers(&store, &bucket(10), RECOVERY).await;
    let callers: Vec<_> = (0..64_u32)
        .map(|nth| {
            let store = store.clone();
            tokio::spawn(async move {
                let (own, mut kept) = (key(&format!("caller {nth}")), 0);
                let gold = bucket(1_000_000 + nth * 1_000);
                for _ in 0..100 {
                    let plans = [gold.clone()];
                    let call = store.try_acquire(&own, &plans, Cost::ONE);
                    let patience = Duration::from_micros(fastrand::u64(0..2000));
                    if let Ok(said) = tokio::time::timeout(patience, call).await {
                        let remaining = said.expect("an answer").plans[0].remaining;
                        assert!((999_900..1_000_000).contains(&(remaining - nth * 1_000)));
                        kept += 1;
                    }
                }
                let spent = spent(&store, &own, &gold).await;
                assert!((kept..=100).contains(&spent), "{kept} kept, {spent} spent");
            })
        })
        .collect();
    for caller in callers {
        caller.await.expect("no wrong reply");
    }
}
