//! [`Crowd`]: how crowded the machine is, as those see it who have to do with a call.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use limiter_testkit::server::RedisServer;

/// Watches how long the threads of this process and some servers wait for a processor, as the
/// kernel counts it.
///
/// What is promised within some time is promised for a machine that lets the threads run which keep
/// the promise. Where it does not, this tells when, and for how long. That a thread wakes up every
/// millisecond says little of the others: the kernel prefers a thread that mostly sleeps.
pub struct Crowd {
    over: Arc<AtomicBool>,
    waits: Arc<Mutex<Vec<Wait>>>,
}

/// A thread waited for the processor.
struct Wait {
    thread: u32,
    from: Instant,
    to: Instant,
}

/// The watcher itself, which is late where the host of a virtual machine gives the time to others:
/// no thread waits then.
const WATCHER: u32 = 0;
const TURN: Duration = Duration::from_millis(2);
/// What a turn of the watcher takes at most where nothing is in its way.
const IN_TIME: Duration = Duration::from_millis(3);
/// The kernel counts a wait when it is over.
const UNTIL_COUNTED: Duration = Duration::from_millis(100);

impl Crowd {
    /// Begins to watch the servers that run now, and this process.
    pub fn watch<'a>(servers: impl IntoIterator<Item = &'a RedisServer>) -> Self {
        let watched = Self {
            over: Arc::default(),
            waits: Arc::default(),
        };
        let pids: Vec<_> = servers.into_iter().filter_map(RedisServer::pid).collect();
        let (over, waits) = (Arc::clone(&watched.over), Arc::clone(&watched.waits));
        std::thread::spawn(move || {
            let mut threads = Threads::of(pids);
            let mut seen = Instant::now();
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(TURN);
                let now = Instant::now();
                let mut waits = lock(&waits);
                threads.look(now, &mut waits);
                if now - seen > IN_TIME {
                    waits.push(Wait {
                        thread: WATCHER,
                        from: seen + TURN,
                        to: now,
                    });
                }
                drop(waits);
                seen = Instant::now();
            }
        });
        watched
    }

    /// Returns how long the thread that waited longest has waited for the processor between two
    /// moments.
    pub async fn waited(&self, from: Instant, to: Instant) -> Duration {
        tokio::time::sleep(UNTIL_COUNTED).await;
        let mut waited = HashMap::<_, Duration>::new();
        for wait in lock(&self.waits).iter() {
            let meanwhile = wait
                .to
                .min(to)
                .saturating_duration_since(wait.from.max(from));
            *waited.entry(wait.thread).or_default() += meanwhile;
        }
        waited.into_values().max().unwrap_or_default()
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// The threads that are watched, each with what it had waited when it was last looked at.
struct Threads {
    servers: Vec<u32>,
    known: HashMap<u32, (File, Duration)>,
    looks: u32,
}

impl Threads {
    fn of(servers: Vec<u32>) -> Self {
        let mut threads = Self {
            servers,
            known: HashMap::new(),
            looks: 0,
        };
        threads.find();
        threads
    }

    /// Finds threads that have begun since.
    fn find(&mut self) {
        let own = fs::read_dir("/proc/self/task").expect("Linux tells");
        let own = own.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
        for thread in own.chain(self.servers.iter().copied()) {
            if let Ok(file) = File::open(format!("/proc/{thread}/schedstat"))
                && let Some(waited) = read(&file)
            {
                self.known.entry(thread).or_insert((file, waited));
            }
        }
    }

    fn look(&mut self, now: Instant, waits: &mut Vec<Wait>) {
        self.looks += 1;
        if self.looks.is_multiple_of(32) {
            self.find();
        }
        self.known.retain(|thread, (file, seen)| {
            let Some(waited) = read(file) else {
                return false;
            };
            let more = waited.saturating_sub(*seen);
            *seen = waited;
            if !more.is_zero() {
                waits.push(Wait {
                    thread: *thread,
                    from: now.checked_sub(more).unwrap_or(now),
                    to: now,
                });
            }
            true
        });
    }
}

/// Reads how long a thread has been ready to run while the processors were busy with others.
fn read(schedstat: &File) -> Option<Duration> {
    let mut text = [0; 64];
    let len = schedstat.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(text.get(..len)?).ok()?;
    let waited = text.split(' ').nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(waited))
}

fn lock(waits: &Mutex<Vec<Wait>>) -> MutexGuard<'_, Vec<Wait>> {
    waits.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four threads for each processor.
    #[test]
    fn threads_that_wait_for_each_other_are_seen() {
        limiter_testkit::block_on(async {
            let workers = 4 * std::thread::available_parallelism().map_or(1, usize::from);
            let crowd = Crowd::watch([]);
            let from = Instant::now();
            let work = move || while from.elapsed() < Duration::from_millis(400) {};
            let workers: Vec<_> = (0..workers).map(|_| std::thread::spawn(work)).collect();
            for worker in workers {
                worker.join().expect("no panic");
            }
            let waited = crowd.waited(from, Instant::now()).await;
            assert!(waited > Duration::from_millis(100), "{waited:?}");
        });
    }
}
