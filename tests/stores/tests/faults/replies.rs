//! Replies that are lost, cut, late, slow, garbled, or waited for by nobody.

use std::time::Duration;

use limiter_core::{Cost, Key, Plan};
use limiter_store_tests::{
    DEADLINE, PATIENT, Stage, Store, UNHURRIED, bucket, check_lost_reply,
    faults_on_clients_and_servers, key, layout, recovers, spend, spent,
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
    let store = stage.client.store(&address, &layout(), DEADLINE);
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

/// A reply too many: under load, those after it would each be read as one to another call, for ever. So the connection is given up.
async fn surplus_reply_does_not_put_later_calls_out_of_step(stage: &Stage) {
    const CALLERS: u32 = 16;
    let (server, proxy) = stage.proxied().await;
    let address = server.url_at(proxy.addr());
    let store = stage.client.store_apart(&address, &layout(), UNHURRIED);
    recovers(&store, &bucket(10), PATIENT).await;
    // So that there are always calls under way.
    proxy.add(
        Direction::Replies,
        Toxic::Latency {
            delay: Duration::from_millis(5),
            jitter: Duration::from_millis(5),
        },
    );
    let callers: Vec<_> = (0..CALLERS)
        .map(|nth| {
            let store = store.clone();
            tokio::spawn(async move {
                let (own, gold, mut wrong) = (key(&format!("caller {nth}")), bucket(1_000_000), 0);
                let first = spent_before(&store, &own, &gold, nth).await;
                for _ in 0..100 {
                    if let Ok(said) = spend(&store, &own, &gold).await {
                        let spent = 1_000_000 - said.plans[0].remaining;
                        wrong += u32::from(!(first..=first + 100).contains(&spent));
                    }
                    sleep(Duration::from_micros(fastrand::u64(0..3000))).await;
                }
                wrong
            })
        })
        .collect();
    sleep(Duration::from_millis(100)).await;
    let surplus = "+OK\r\n+OK\r\n";
    proxy.add_rule(ReplyRule::next(1, ReplyFault::Garbage(surplus.into())).to_command("EVALSHA"));
    let mut wrong = 0;
    for caller in callers {
        wrong += caller.await.expect("every call in time");
    }
    // Replies that were read together with it have found their calls before it is understood.
    assert!(wrong <= CALLERS, "{wrong} calls got a reply to another");
}

/// Spends an amount that no other caller spends, so that what is spent tells whose a reply is.
async fn spent_before(store: &Store, own: &Key, gold: &Plan, nth: u32) -> u32 {
    let first = (nth + 1) * 1_000;
    let cost = Cost::new(first).expect("a cost");
    let said = store.try_acquire(own, std::slice::from_ref(gold), cost);
    assert!(said.await.expect("an answer").admitted);
    first
}

/// Callers are dropped at random moments; each has spent another amount before, and so sees at once if a reply was another's.
async fn cancelled_callers_get_nobody_elses_reply(stage: &Stage) {
    let server = stage.server();
    let store = stage.client.store(&server.url(), &layout(), PATIENT);
    recovers(&store, &bucket(10), PATIENT).await;
    let callers: Vec<_> = (0..64_u32)
        .map(|nth| {
            let store = store.clone();
            tokio::spawn(async move {
                let (own, gold, mut kept) = (key(&format!("caller {nth}")), bucket(1_000_000), 0);
                let first = spent_before(&store, &own, &gold, nth).await;
                for _ in 0..100 {
                    let plans = [gold.clone()];
                    let call = store.try_acquire(&own, &plans, Cost::ONE);
                    let patience = Duration::from_micros(fastrand::u64(0..2000));
                    if let Ok(said) = tokio::time::timeout(patience, call).await {
                        let spent = 1_000_000 - said.expect("an answer").plans[0].remaining;
                        assert!((first..=first + 100).contains(&spent), "{spent} spent");
                        kept += 1;
                    }
                }
                let spent = spent(&store, &own, &gold).await - first;
                assert!((kept..=100).contains(&spent), "{kept} kept, {spent} spent");
            })
        })
        .collect();
    for caller in callers {
        caller.await.expect("no wrong reply");
    }
}
