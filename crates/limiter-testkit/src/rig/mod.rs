//! Stores on real servers, as the laws want them: [`ServerRig`] on a [`Site`].

mod server_rig;
mod site;

pub use server_rig::{ServerRig, Tools};
pub use site::Site;
