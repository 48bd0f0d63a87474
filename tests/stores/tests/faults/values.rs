//! Values that are none of the limiter's.

use limiter_store_tests::{
    Stage, faults_on_clients_and_servers, foreign_values_are_neither_read_nor_overwritten, key,
    layout,
};

faults_on_clients_and_servers! {
    foreign_and_corrupt_values
}

async fn foreign_and_corrupt_values(stage: &Stage) {
    let (server, layout) = (stage.server(), layout());
    let (address, ann) = (server.url(), key("ann"));
    let place = (address.as_str(), &layout);
    foreign_values_are_neither_read_nor_overwritten(stage.client, place, &server, &ann).await;
}
