//! Replies that are lost, cut, late, slow, garbled, too many, or waited for by nobody.

use std::collections::HashMap;
use std::time::Duration;

use limiter_store_tests::{
    Arranged, DEADLINE, PATIENT, Stage, UNHURRIED, bucket, check_lost_reply,
    no_cancelled_caller_gets_anothers_reply, no_surplus_reply_is_read_as_an_answer, recovers_for,
    spend, spent,
};
use limiter_testkit::proxy::{Direction, Ending, FaultProxy, ReplyFault, ReplyRule, Toxic};
use tokio::time::sleep;

arranged! {
    everywhere:
        spoiled_replies_are_said_and_charged_once
        one_byte_at_a_time
        surplus_reply_does_not_put_later_calls_out_of_step
        cancelled_callers_get_nobody_elses_reply;
    on_a_cluster: ;
    behind_sentinels: ;
    where_another_takes_over: ;
}

async fn spoiled_replies_are_said_and_charged_once(stage: &Stage, all: Arranged) {
    let gold = bucket(1000);
    for deadline in [UNHURRIED, DEADLINE] {
        let store = all.store(stage, deadline);
        for fault in [
            ReplyFault::Lost(Ending::Hang),
            ReplyFault::Lost(Ending::Reset),
            ReplyFault::CutAfter { bytes: 5 },
            ReplyFault::Late(deadline * 3 / 2),
            ReplyFault::Garbage("+OK\r\n".into()),
            ReplyFault::Garbage("?!\r\n".into()),
        ] {
            all.recovers(&store, &gold).await;
            let before = spent(&store, &all.user, &gold).await;
            let rule = ReplyRule::next(1, fault.clone());
            all.proxy().add_rule(rule.to_command("EVALSHA"));
            let error = spend(&store, &all.user, &gold).await;
            let error = error.expect_err("no reply that fits");
            // Should the client send it again, it does so by then.
            sleep(Duration::from_millis(200)).await;
            all.proxy().heal();
            let patient = all.store(stage, PATIENT);
            let charged = spent(&patient, &all.user, &gold).await - before;
            check_lost_reply(deadline, &error, charged);
        }
    }
}

/// By a proxy that only the store goes through: sentinels take a server whose replies are so slow
/// for dead.
async fn one_byte_at_a_time(stage: &Stage, all: Arranged) {
    let slow = FaultProxy::start(all.server().addr()).await;
    let slow = slow.expect("a proxy");
    let [told, reached] = [all.proxy(), &slow].map(|proxy| proxy.addr().port());
    let ports = HashMap::from([(told, reached)]);
    // Seeds are reached where the user says they are.
    let address = all.address.replace(&told.to_string(), &reached.to_string());
    let client = stage.client;
    let store = client.store_with_ports(&address, &all.layout, PATIENT, ports);
    let gold = bucket(100);
    let said = spend(&store, &all.user, &gold).await.expect("an answer");
    assert_eq!(said.plans[0].remaining, 99);
    slow.add(Direction::Both, Toxic::ONE_BYTE_SLICES);
    let before = slow.requests_of("EVALSHA");
    for remaining in (89..99).rev() {
        let said = spend(&store, &all.user, &gold).await.expect("an answer");
        assert_eq!(said.plans[0].remaining, remaining);
    }
    assert_eq!(slow.requests_of("EVALSHA") - before, 10);
}

async fn surplus_reply_does_not_put_later_calls_out_of_step(stage: &Stage, all: Arranged) {
    let client = stage.client;
    let store = client.store_apart(&all.address, &all.layout, UNHURRIED);
    recovers_for(&store, &all.user, &bucket(10), PATIENT).await;
    no_surplus_reply_is_read_as_an_answer(&store, all.proxy(), all.users(16)).await;
}

async fn cancelled_callers_get_nobody_elses_reply(stage: &Stage, all: Arranged) {
    let store = all.store(stage, PATIENT);
    recovers_for(&store, &all.user, &bucket(10), PATIENT).await;
    no_cancelled_caller_gets_anothers_reply(&store, all.users(64)).await;
}
