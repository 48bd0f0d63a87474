//! What every client needs around the scripts: connections that are renewed, a deadline for each call, and the one rule of
//! what may be sent again. An adapter brings its client as a [`Driver`] and gets a [`Runner`].

mod address_map;
mod attempts;
mod cluster;
mod connections;
mod deadline;
mod departure;
mod destination;
mod driver;
mod failure;
mod failures;
mod first_success;
mod gather;
mod in_part;
mod job;
mod link;
mod member;
mod message;
mod node;
mod owned_job;
mod pool;
mod pool_sizing;
mod reply;
mod resolver;
mod route;
mod router;
#[expect(clippy::module_inception, reason = "the module's one public noun")]
mod runner;
mod servers;
mod settings;
mod slot_map;
mod slots;
mod system_random;
mod target;
#[cfg(test)]
mod tenfold;
mod unanswered;
mod waiting;

pub use address_map::AddressMap;
pub use connections::{Connections, InvalidConnections};
pub use driver::Driver;
pub use failure::Failure;
#[cfg(feature = "sessions")]
pub(crate) use failure::settled;
pub use job::Job;
pub use node::Node;
pub use pool_sizing::PoolSizing;
pub use reply::Reply;
#[cfg(feature = "sessions")]
pub(crate) use reply::digits;
pub use route::{Redirect, Route};
pub use runner::Runner;
pub use servers::Servers;
pub use settings::Settings;
pub use system_random::SystemRandom;
pub use target::Target;
