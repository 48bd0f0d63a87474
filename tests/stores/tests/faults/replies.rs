//! Replies that are lost, cut, late, slow, garbled, or waited for by nobody.

use std::time::Duration;

use limiter_core::{Cost, Key};
use limiter_store_tests::{
    DEADLINE, PATIENT, Stage, UNHURRIED, bucket, check_lost_reply, faults_on_clients_and_servers,
    key, layout, no_cancelled_caller_gets_anothers_reply, no_surplus_reply_is_read_as_an_answer,
    recovers, spend, spent,
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
    garbage_reply_to_a_reset
    surplus_reply_does_not_put_later_calls_out_of_step
    cancelled_callers_get_nobody_elses_reply
}

async fn swallowed_reply_is_charged_once_and_said(stage: &Stage) {
    for ending in [Ending::Hang, Ending::Close, Ending::Reset] {
        for deadline in [UNHURRIED, DEADLINE] {
            fault_in_a_reply(stage, ReplyFault::Lost(ending), deadline).await;
        }
    }
}

async fn reset_in_the_middle_of_a_reply(stage: &Stage) {
    for bytes in [1, 5, 12] {
        for deadline in [UNHURRIED, DEADLINE] {
            fault_in_a_reply(stage, ReplyFault::CutAfter { bytes }, deadline).await;
        }
    }
}

async fn reply_after_the_deadline(stage: &Stage) {
    for deadline in [UNHURRIED / 4, DEADLINE] {
        fault_in_a_reply(stage, ReplyFault::Late(deadline * 3), deadline).await;
    }
}

/// Spoils one reply after the script ran.
async fn fault_in_a_reply(stage: &Stage, fault: ReplyFault, deadline: Duration) {
    let (server, proxy) = stage.proxied().await;
    let (layout, gold, ann) = (layout(), bucket(1000), key("ann"));
    let address = server.url_at(proxy.addr());
    let store = stage.client.store(&address, &layout, deadline);
    recovers(&store, &gold, PATIENT).await;
    proxy.add_rule(ReplyRule::next(1, fault).to_command("EVALSHA"));
    let error = spend(&store, &ann, &gold).await.expect_err("no reply");
    // Should the client send it again, it does so by then.
    sleep(Duration::from_millis(300)).await;
    let direct = stage.client.store(&server.url(), &layout, PATIENT);
    check_lost_reply(deadline, &error, spent(&direct, &ann, &gold).await);
    proxy.heal();
    recovers(&store, &gold, RECOVERY).await;
    // What came of the reply went to nobody: the next caller gets its own.
    assert_eq!(spent(&store, &key("bob"), &bucket(5)).await, 0);
}

async fn one_byte_at_a_time(stage: &Stage) {
    let (server, proxy) = stage.proxied().await;
    let gold = bucket(100);
    let store = stage
        .client
        .store(&server.url_at(proxy.addr()), &layout(), PATIENT);
    recovers(&store, &gold, PATIENT).await;
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
    recovers(&store, &gold, PATIENT).await;
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

async fn garbage_reply_to_a_reset(stage: &Stage) {
    let (server, proxy) = stage.proxied().await;
    let (ann, gold) = (key("ann"), bucket(100));
    let address = server.url_at(proxy.addr());
    let store = stage.client.store(&address, &layout(), UNHURRIED);
    recovers(&store, &gold, PATIENT).await;
    for garbage in ["+OK\r\n", "$5\r\nhello\r\n", "$-1\r\n"] {
        let rule = ReplyRule::next(1, ReplyFault::Garbage(garbage.into()));
        proxy.add_rule(rule.to_command("HDEL"));
        let error = store.reset(&ann, std::slice::from_ref(&gold)).await;
        let error = error.expect_err(garbage);
        assert!(
            error.is_outage() && error.may_have_charged(),
            "{garbage:?}: {error:?}"
        );
        recovers(&store, &gold, RECOVERY).await;
    }
}

async fn surplus_reply_does_not_put_later_calls_out_of_step(stage: &Stage) {
    let (server, proxy) = stage.proxied().await;
    let address = server.url_at(proxy.addr());
    let store = stage.client.store_apart(&address, &layout(), UNHURRIED);
    recovers(&store, &bucket(10), PATIENT).await;
    no_surplus_reply_is_read_as_an_answer(&store, &proxy, callers(16)).await;
}

async fn cancelled_callers_get_nobody_elses_reply(stage: &Stage) {
    let server = stage.server();
    let store = stage.client.store(&server.url(), &layout(), PATIENT);
    recovers(&store, &bucket(10), PATIENT).await;
    no_cancelled_caller_gets_anothers_reply(&store, callers(64)).await;
}

fn callers(count: u32) -> Vec<Key> {
    let callers = (0..count).map(|nth| key(&format!("caller {nth}")));
    callers.collect()
}
