use std::time::Duration;

use super::reply_rule::{Ending, ReplyFault};
use super::resp_framer::RespFramer;

/// What to do next with the replies of one connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Write(Vec<u8>),
    Wait(Duration),
    End(Ending),
}

/// Turns what the server sent on one connection into what the client gets.
#[derive(Debug, Default)]
pub(super) struct ReplyFilter {
    framer: RespFramer,
    /// The fault of the reply that is under way, and how much of it has been let through.
    current: Option<(ReplyFault, usize)>,
}

impl ReplyFilter {
    /// `fault_for` is asked once for every reply that begins; `on_reply` is told of every one that ended.
    pub(super) fn pass(
        &mut self,
        mut bytes: &[u8],
        mut fault_for: impl FnMut() -> Option<ReplyFault>,
        mut on_reply: impl FnMut(),
    ) -> Vec<Step> {
        let mut steps = Vec::new();
        while !bytes.is_empty() {
            let segment = self.framer.take(bytes);
            let (piece, rest) = bytes.split_at(segment.length);
            bytes = rest;
            if segment.starts && !segment.is_push {
                self.current = fault_for().map(|fault| (fault, 0));
                match &self.current {
                    Some((ReplyFault::Garbage(garbage), _)) => write(&mut steps, garbage),
                    Some((ReplyFault::Late(by), _)) => steps.push(Step::Wait(*by)),
                    _ => {}
                }
            }
            let ending = self.pass_piece(piece, segment.ends, &mut steps);
            if segment.ends {
                self.current = None;
                if !segment.is_push {
                    on_reply();
                }
            }
            if let Some(ending) = ending {
                steps.push(Step::End(ending));
                break;
            }
        }
        steps
    }

    /// Passes on a piece of the reply under way; some ending if that ends the connection.
    fn pass_piece(&mut self, piece: &[u8], ends: bool, steps: &mut Vec<Step>) -> Option<Ending> {
        match &mut self.current {
            None | Some((ReplyFault::Late(_), _)) => {
                write(steps, piece);
                None
            }
            Some((ReplyFault::Garbage(_), _)) => None,
            Some((ReplyFault::Lost(ending), _)) => ends.then_some(*ending),
            Some((ReplyFault::CutAfter { bytes }, passed)) => {
                let part = piece.get(..bytes.saturating_sub(*passed)).unwrap_or(piece);
                write(steps, part);
                *passed += part.len();
                (ends || *passed == *bytes).then_some(Ending::Reset)
            }
        }
    }
}

/// Appends to the last step if that is a write, so that what came together leaves together.
fn write(steps: &mut Vec<Step>, bytes: &[u8]) {
    match steps.last_mut() {
        _ if bytes.is_empty() => {}
        Some(Step::Write(last)) => last.extend_from_slice(bytes),
        _ => steps.push(Step::Write(bytes.to_vec())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIRE: &[u8] = b"+a\r\n>1\r\n+push\r\n+b\r\n+c\r\n";

    /// Passes `WIRE` in pieces of `size`; the second reply meets `fault`.
    fn pass(fault: &ReplyFault, size: usize) -> Vec<Step> {
        let (mut filter, mut begun) = (ReplyFilter::default(), 0);
        let mut steps = Vec::new();
        for chunk in WIRE.chunks(size) {
            let fault_for = || {
                begun += 1;
                (begun == 2).then(|| fault.clone())
            };
            for step in filter.pass(chunk, fault_for, || ()) {
                match step {
                    Step::Write(bytes) => write(&mut steps, &bytes),
                    Step::End(_) => {
                        steps.push(step);
                        return steps;
                    }
                    Step::Wait(_) => steps.push(step),
                }
            }
        }
        steps
    }

    #[test]
    fn each_fault_hits_exactly_its_reply() {
        let before = || Step::Write(b"+a\r\n>1\r\n+push\r\n".to_vec());
        let second = Duration::from_secs(1);
        for size in [1, 2, 5, WIRE.len()] {
            assert_eq!(
                pass(&ReplyFault::Lost(Ending::Hang), size),
                [before(), Step::End(Ending::Hang)]
            );
            let late = [
                before(),
                Step::Wait(second),
                Step::Write(b"+b\r\n+c\r\n".to_vec()),
            ];
            assert_eq!(pass(&ReplyFault::Late(second), size), late);
            let garbage = Step::Write(b"+a\r\n>1\r\n+push\r\n?!+c\r\n".to_vec());
            assert_eq!(pass(&ReplyFault::Garbage(b"?!".to_vec()), size), [garbage]);
            let cut = [
                Step::Write(b"+a\r\n>1\r\n+push\r\n+b".to_vec()),
                Step::End(Ending::Reset),
            ];
            assert_eq!(pass(&ReplyFault::CutAfter { bytes: 2 }, size), cut);
            assert_eq!(
                pass(&ReplyFault::CutAfter { bytes: 0 }, size),
                [before(), Step::End(Ending::Reset)]
            );
            let whole = [
                Step::Write(b"+a\r\n>1\r\n+push\r\n+b\r\n".to_vec()),
                Step::End(Ending::Reset),
            ];
            assert_eq!(pass(&ReplyFault::CutAfter { bytes: 99 }, size), whole);
        }
    }
}
