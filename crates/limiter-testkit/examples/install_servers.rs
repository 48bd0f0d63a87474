//! Installs the servers that tests need, those that are missing, and prints where they are.
//!
//! ```sh
//! cargo run -p limiter-testkit --features servers --example install_servers
//! ```

use limiter_testkit::server::{Flavour, ServerError, ensure_installed};

fn main() -> Result<(), ServerError> {
    for flavour in Flavour::ALL {
        println!(
            "{}: {}",
            flavour.program(),
            ensure_installed(flavour)?.display()
        );
    }
    Ok(())
}
