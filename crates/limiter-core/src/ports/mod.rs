//! The ports: what drives the core, and what the core drives.

mod abuse_limiter;
mod abuse_repository;
mod clock;
mod in_process_repository;
mod key_resolver;
mod observer;
mod plan_registry;
mod random_source;
mod rate_limiter;
mod repository;
mod timer;

pub use abuse_limiter::AbuseLimiter;
pub use abuse_repository::AbuseRepository;
pub use clock::Clock;
pub use in_process_repository::InProcessRepository;
pub use key_resolver::{KeyResolver, RequestSource, UnresolvedKey};
pub use observer::{NoObserver, Observer};
pub use plan_registry::{PlanRegistry, UnknownPlan};
pub use random_source::RandomSource;
pub use rate_limiter::RateLimiter;
pub use repository::RateLimiterRepository;
pub use timer::{Sleep, Timer};

/// Mocks of the ports, made with mockall.
#[cfg(any(test, feature = "mock"))]
pub mod mock {
    pub use super::abuse_limiter::MockAbuseLimiter;
    pub use super::abuse_repository::MockAbuseRepository;
    pub use super::clock::MockClock;
    pub use super::key_resolver::{MockKeyResolver, MockRequestSource};
    pub use super::observer::MockObserver;
    pub use super::plan_registry::MockPlanRegistry;
    pub use super::random_source::MockRandomSource;
    pub use super::rate_limiter::MockRateLimiter;
    pub use super::repository::MockRateLimiterRepository;
    pub use super::timer::MockTimer;
}
