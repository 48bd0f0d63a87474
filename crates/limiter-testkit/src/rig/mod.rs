//! Stores on real servers, as the laws want them: [`ServerRig`] on a [`Site`].

mod permissions;
mod server_rig;
#[cfg(feature = "sessions")]
mod session_rig;
mod site;

#[cfg(feature = "sessions")]
pub use permissions::SESSION_PERMISSIONS;
pub use permissions::{PERMISSIONS, acl_user};
pub use server_rig::{ServerRig, Tools};
#[cfg(feature = "sessions")]
pub use session_rig::SessionRig;
pub use site::Site;
