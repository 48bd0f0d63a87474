//! [`FredStore`]: the store on Redis and Valkey.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fred::clients::Client;
use fred::types::Value;
use limiter_core::math::Draw;
use limiter_core::{
    Clock, Cost, Key, Limit, Plan, RandomSource, RateLimiterRepository, StoreError, Verdict,
    check_request,
};
use limiter_lua::{Answer, BadReply, Call, Fault, KeyLayout};
use tokio::time::{sleep, timeout};

use crate::builder::FredStoreBuilder;
use crate::connection::Route;
use crate::deadline::Sent;
use crate::endpoint::{Endpoint, InvalidEndpoint};
use crate::error::Failure;
use crate::job::Job;
use crate::link::{Link, Live};

/// The store on Redis and Valkey, through fred.
///
/// One call is one script on one key, and one round trip. It connects when it is first asked, and again by itself when
/// the connection breaks; a call answers or fails before its deadline, whatever the server does.
///
/// # Examples
/// ```no_run
/// use limiter_core::{Cost, Key, Plan, RateLimiterRepository};
/// use limiter_fred::FredStore;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = FredStore::connect("redis://127.0.0.1:6379")?;
/// let gold = [Plan::new("gold", "1/s burst 10")?];
/// let verdict = store.try_acquire(&Key::new("user:42")?, &gold, Cost::ONE).await?;
/// assert!(verdict.admitted);
/// # Ok(())
/// # }
/// ```
pub struct FredStore {
    pub(crate) link: Link,
    pub(crate) layout: KeyLayout,
    pub(crate) deadline: Duration,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    pub(crate) random: Arc<dyn RandomSource>,
}

impl FredStore {
    /// Makes a store with the default prefix and deadline. Nothing is connected yet. [`Endpoint`] says what addresses
    /// look like.
    ///
    /// # Errors
    /// [`InvalidEndpoint`] if the address is not understood.
    pub fn connect(address: &str) -> Result<Self, InvalidEndpoint> {
        Self::builder(address.parse::<Endpoint>()?).build()
    }

    /// Returns a builder of a store that connects by itself.
    pub fn builder(endpoint: Endpoint) -> FredStoreBuilder {
        FredStoreBuilder::new(endpoint)
    }

    /// Returns a builder of a store on a client that the user has, and has connected. Reconnecting is then the client's
    /// own affair.
    pub fn on(client: Client) -> FredStoreBuilder {
        FredStoreBuilder::from_client(client)
    }

    /// Returns where the state of a key is kept.
    #[must_use]
    pub const fn layout(&self) -> &KeyLayout {
        &self.layout
    }

    /// Runs a call before its deadline.
    async fn run(&self, call: Call<'_>) -> Result<Verdict, StoreError> {
        let mut call = match &self.clock {
            Some(clock) => call.at(clock.now()),
            None => call,
        };
        let sent = Sent::default();
        let writes = call.writes();
        let running = async {
            loop {
                let job = Job::Run(call);
                let reply = self.attempts(&job, &sent).await?;
                let (Job::Run(ran), Some(reply)) = (job, reply.as_bytes()) else {
                    return Err(BadReply::Malformed { len: 0 }.into());
                };
                match ran.answer(reply)? {
                    Answer::Verdict(verdict) => return Ok(verdict),
                    Answer::Ask(other) => call = other,
                }
            }
        };
        match timeout(self.deadline, running).await {
            Ok(verdict) => verdict,
            Err(_) => Err(self.deadline_passed(&sent, writes)),
        }
    }

    /// Does a job before its deadline.
    pub(crate) async fn ask(&self, job: &Job<'_>) -> Result<Value, StoreError> {
        let sent = Sent::default();
        match timeout(self.deadline, self.attempts(job, &sent)).await {
            Ok(reply) => reply,
            Err(_) => Err(self.deadline_passed(&sent, job.writes())),
        }
    }

    fn deadline_passed(&self, sent: &Sent, writes: bool) -> StoreError {
        if sent.get() {
            self.link.note_silence();
        }
        sent.deadline_passed(self.deadline, writes)
    }

    /// Sends a job until it is answered, or fails in a way that does not rule out that it ran.
    async fn attempts(&self, job: &Job<'_>, sent: &Sent) -> Result<Value, StoreError> {
        let mut route = Route::default();
        let mut pause = FIRST_PAUSE;
        loop {
            let live = self.link.live().await?;
            sent.set(true);
            let error = match live.connection.send(job, route).await {
                Ok(reply) => {
                    self.link.note_answer();
                    return Ok(reply);
                }
                Err(error) => error,
            };
            match Failure::of(&error) {
                Failure::Reply(fault) => {
                    self.link.note_answer();
                    sent.set(false);
                    if !fault.is_retried() || !self.prepare_retry(fault, &live, &mut route) {
                        return Err(fault.into_error(error));
                    }
                    if matches!(fault, Fault::NotNow | Fault::Demoted) {
                        sleep(pause).await;
                        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
                    }
                }
                failure => {
                    // A cluster's client renews what it lost of many connections; the others are still good.
                    if !live.connection.is_cluster() {
                        self.link.drop_broken(&live);
                    }
                    return Err(failure.into_error(error, job.writes()));
                }
            }
        }
    }

    /// Makes ready to send again what did not run; returns whether that makes sense.
    fn prepare_retry(&self, fault: Fault, live: &Live, route: &mut Route) -> bool {
        let is_cluster = live.connection.is_cluster();
        match fault {
            Fault::NoScript => route.with_text = true,
            // fred says this in words of its own on a cluster; elsewhere a redirection leads nowhere.
            Fault::Moved | Fault::Ask => return is_cluster,
            Fault::Demoted if !is_cluster => self.link.drop_broken(live),
            _ => {}
        }
        true
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(16);

/// # Cancel safety
/// A dropped call may still take effect, once: what was sent is not called back.
#[async_trait]
impl RateLimiterRepository for FredStore {
    async fn try_acquire(
        &self,
        key: &Key,
        plans: &[Plan],
        cost: Cost,
    ) -> Result<Verdict, StoreError> {
        let draws = plans
            .iter()
            .any(|plan| matches!(plan.limit(), Limit::SuppressingWindow(_)));
        let draw = if draws {
            Draw::from_random(self.random.next_u64())
        } else {
            Draw::LOWEST
        };
        self.run(Call::acquire(&self.layout, key, plans, cost, draw)?)
            .await
    }

    async fn peek(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        self.run(Call::peek(&self.layout, key, plans, cost)?).await
    }

    async fn refund(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        self.run(Call::refund(&self.layout, key, plans, cost)?)
            .await
    }

    async fn reset(&self, key: &Key, plans: &[Plan]) -> Result<(), StoreError> {
        check_request(plans, None)?;
        let name = self.layout.name(key);
        self.ask(&Job::Forget { name, plans }).await.map(|_| ())
    }
}

impl std::fmt::Debug for FredStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FredStore")
            .field("link", &self.link)
            .field("prefix", &self.layout.prefix())
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
