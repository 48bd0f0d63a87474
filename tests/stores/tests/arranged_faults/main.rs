//! The faults of one server, on a node of a cluster and on a primary behind sentinels: calls for
//! its keys fail in time and say whether they may have charged, and are answered again when the
//! server is back, or another has its place.
//!
//! What cannot be: behind sentinels a primary that was killed does not come back empty, for its
//! replica has its place by then; a node of a cluster without replicas has nobody to take over; and
//! a cluster takes no node's role away but for its replica.
#![cfg(test)]

/// Makes a test of each function in each of the arrangements that it is for.
macro_rules! arranged {
    (
        everywhere: $($everywhere:ident)*;
        on_a_cluster: $($on_a_cluster:ident)*;
        behind_sentinels: $($behind_sentinels:ident)*;
        where_another_takes_over: $($taken_over:ident)*;
    ) => {
        arranged! { @on_a_cluster cluster $($everywhere)* $($on_a_cluster)* }
        arranged! { @behind_sentinels sentinels $($everywhere)* $($behind_sentinels)* $($taken_over)* }
        arranged! { @on_a_cluster_with_replicas cluster_with_replicas $($taken_over)* }
    };
    (@$module:ident $arrangement:ident $($fault:ident)*) => {
        mod $module {
            limiter_store_tests::faults_on_clients! { $($fault)* }

            $(async fn $fault(stage: &limiter_store_tests::Stage) {
                let all = limiter_store_tests::Arranged::$arrangement(stage).await;
                super::$fault(stage, all).await;
            })*
        }
    };
}

mod outages;
mod refusals;
mod replies;
