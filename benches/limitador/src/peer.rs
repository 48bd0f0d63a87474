//! limitador, as its documentation has it used from async code with Redis.

use std::collections::HashMap;
use std::sync::Arc;

use limitador::AsyncRateLimiter;
use limitador::limit::{Limit, Namespace};
use limitador::storage::redis::AsyncRedisStorage;
use limiter_benches::shared_store::KEYS;
use limiter_benches::turns::{Problem, Racer};

/// Never reached: what is measured is what it takes to be admitted.
const MOST: u64 = 1_000_000;
const WINDOW_S: u64 = 60;

/// limitador's `AsyncRedisStorage` on the server at `url`: one limit, one counter a user, checked and updated in one call.
///
/// Not its `CachedRedisStorage`: that one decides by what it has in process and tells the server later, so that nodes that share
/// a limit do not see each other in time. This one asks the server for every decision, as we do. It asks twice, to read and then
/// to add, so that callers who race may be too many; of what it has it is the nearest.
pub(crate) async fn limitador(name: &'static str, url: &str) -> Result<Racer, Problem> {
    let storage = AsyncRedisStorage::new(url).await?;
    let limiter = Arc::new(AsyncRateLimiter::new_with_storage(Box::new(storage)));
    let api = Namespace::from("api");
    // With an id the names of its keys are short; without, each holds the whole limit.
    let user = ["user".try_into()?];
    limiter.add_limit(Limit::with_id("gold", "api", MOST, WINDOW_S, [], user));
    Ok(Racer::new(name, move |nth| {
        let (limiter, api) = (Arc::clone(&limiter), api.clone());
        async move { spend(&limiter, &api, nth % KEYS).await }
    }))
}

async fn spend(limiter: &AsyncRateLimiter, api: &Namespace, user: usize) -> Result<(), Problem> {
    let request = HashMap::from([("user".to_owned(), format!("user:{user:06}"))]).into();
    let answer = limiter.check_rate_limited_and_update(api, &request, 1);
    // Its error must stay on its thread; ours must not.
    if answer.await.map_err(|error| error.to_string())?.limited {
        return Err("limitador denied what is within its limit".into());
    }
    Ok(())
}
