//! [`Slots`]: which node of a cluster serves which slots; and the slot of a key.

use super::{AddressMap, Node, Reply};

/// How many slots a cluster has.
pub(super) const SLOTS: u16 = 16_384;

/// Slots that one node serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlotRange {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) primary: Node,
}

/// What a node said of the slots of its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slots {
    pub(super) ranges: Vec<SlotRange>,
    /// Whether every node that serves slots said where it is.
    pub(super) is_complete: bool,
}

impl Slots {
    /// Reads the reply to `CLUSTER SLOTS`; `None` if it is none.
    ///
    /// `asked` is the host of the node that replied: one that leaves out a host means that one.
    pub(super) fn read(reply: &Reply, asked: Option<&str>, map: &AddressMap) -> Option<Self> {
        let Reply::List(entries) = reply else {
            return None;
        };
        let (mut ranges, mut is_complete) = (Vec::new(), true);
        for entry in entries {
            let [first, last, primary, ..] = entry.parts() else {
                return None;
            };
            let (first, last) = (slot(first)?, slot(last)?);
            match node(primary, asked) {
                Some(node) if first <= last => ranges.push(SlotRange {
                    first,
                    last,
                    primary: map.reached_at(node),
                }),
                _ => is_complete = false,
            }
        }
        Some(Self {
            ranges,
            is_complete,
        })
    }

    /// Returns how many slots were mentioned.
    pub(super) fn covered(&self) -> usize {
        let ranges = self.ranges.iter();
        ranges
            .map(|range| usize::from(range.last - range.first) + 1)
            .sum()
    }

    /// Returns whether every slot was mentioned.
    pub(super) fn is_whole(&self) -> bool {
        self.covered() >= usize::from(SLOTS)
    }

    /// Returns the nodes that serve slots, and whether these are all of them.
    pub(super) fn primaries(self) -> (Vec<Node>, bool) {
        let ranges = self.ranges.into_iter();
        let mut primaries: Vec<_> = ranges.map(|range| range.primary).collect();
        primaries.sort_unstable();
        primaries.dedup();
        (primaries, self.is_complete)
    }
}

fn slot(number: &Reply) -> Option<u16> {
    let slot = number.number()?.try_into().ok()?;
    (slot < SLOTS).then_some(slot)
}

/// Reads a node: a host, a port, an id and, since Redis 7, names and values that tell more.
///
/// The host is missing if the node does not know its own or was told to keep it to itself. It is [a
/// question mark](Node::NAMELESS) if the node was told to give its name and has none: its address
/// may stand with the rest then.
fn node(node: &Reply, asked: Option<&str>) -> Option<Node> {
    let (host, port) = match node.parts() {
        [host, port, ..] => (host.text().unwrap_or_default(), port.number()?),
        _ => return None,
    };
    let host = match host {
        "" => asked?,
        Node::NAMELESS => address_beside(node)?,
        host => host,
    };
    Some(Node::new(host, port.try_into().ok()?))
}

fn address_beside(node: &Reply) -> Option<&str> {
    let more = node.parts().get(3)?.parts().chunks_exact(2);
    let mut values = more.filter_map(|pair| Some((pair.first()?.text()?, pair.get(1)?.text()?)));
    let (_, address) = values.find(|(name, value)| *name == "ip" && !value.is_empty())?;
    Some(address)
}

/// Returns the slot of a key: that of its hash tag, if it has one.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    crc16::State::<crc16::XMODEM>::calculate(hash_tag(key)) % SLOTS
}

/// Returns what stands between the first opening brace and the closing one after it, if there is anything; else the whole key.
fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else {
        return key;
    };
    let tagged = key.get(open + 1..).unwrap_or_default();
    match tagged.iter().position(|byte| *byte == b'}') {
        Some(close) if close > 0 => tagged.get(..close).unwrap_or(key),
        _ => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Reply {
        Reply::Bytes(text.into())
    }

    fn entry(first: i64, last: i64, host: Reply, more: &[(&str, &str)]) -> Reply {
        let more = more
            .iter()
            .flat_map(|(name, value)| [text(name), text(value)]);
        let primary = vec![
            host,
            Reply::Int(7000),
            text("id"),
            Reply::List(more.collect()),
        ];
        let replica = vec![text("10.0.0.9"), Reply::Int(7001), text("id")];
        Reply::List(vec![
            Reply::Int(first),
            Reply::Int(last),
            Reply::List(primary),
            Reply::List(replica),
        ])
    }

    fn read(entries: Vec<Reply>) -> Option<Slots> {
        Slots::read(
            &Reply::List(entries),
            Some("10.0.0.1"),
            &AddressMap::default(),
        )
    }

    #[test]
    fn slots_are_those_that_servers_compute() {
        // By the specification of Redis Cluster, and by CLUSTER KEYSLOT.
        for (key, slot) in [
            ("123456789", 12_739),
            ("foo", 12_182),
            ("{foo}bar", 12_182),
            ("x{foo}{bar}", 12_182),
            ("", 0),
        ] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
        for whole in ["{}foo", "foo{", "}foo{"] {
            assert_eq!(hash_tag(whole.as_bytes()), whole.as_bytes());
        }
        assert_eq!(hash_tag(b"foo{{bar}}"), b"{bar");
    }

    #[test]
    fn a_host_that_is_left_out_is_that_of_the_node_that_was_asked() {
        for unknown in [Reply::Nil, text("")] {
            let slots = read(vec![entry(0, 5, unknown, &[])]).expect("slots");
            assert_eq!(slots.ranges[0].primary, Node::new("10.0.0.1", 7000));
            assert!(slots.is_complete);
        }
    }

    #[test]
    fn all_slots_are_covered_or_not() {
        for (last, is_whole) in [(SLOTS - 1, true), (SLOTS - 2, false)] {
            let all = [(0, 9), (10, last)]
                .map(|(first, last)| entry(first, last.into(), text("10.0.0.2"), &[]));
            let slots = read(all.to_vec()).expect("slots");
            assert_eq!(slots.is_whole(), is_whole, "{}", slots.covered());
        }
    }

    #[test]
    fn a_node_without_a_name_is_reached_at_its_address() {
        let more = [("hostname", ""), ("ip", "10.0.0.7")];
        let slots = read(vec![entry(0, 5, text("?"), &more)]).expect("slots");
        assert_eq!(slots.ranges[0].primary, Node::new("10.0.0.7", 7000));
    }

    #[test]
    fn nodes_that_cannot_be_found_are_not_passed_over_in_silence() {
        let known = || entry(0, 5, text("10.0.0.2"), &[]);
        for unknown in [
            entry(6, 9, text("?"), &[]),
            entry(6, 9, text("?"), &[("ip", "")]),
            entry(9, 6, text("10.0.0.3"), &[]),
        ] {
            let slots = read(vec![known(), unknown]).expect("slots");
            assert_eq!((slots.ranges.len(), slots.is_complete), (1, false));
        }
        assert!(read(vec![known()]).is_some_and(|slots| slots.is_complete));
        let nobody = Slots::read(
            &Reply::List(vec![entry(0, 5, Reply::Nil, &[])]),
            None,
            &AddressMap::default(),
        );
        assert!(nobody.is_some_and(|slots| !slots.is_complete));
    }

    #[test]
    fn what_is_no_list_of_slots_is_refused() {
        for bad in [
            vec![Reply::Int(1)],
            vec![entry(-1, 5, text("a"), &[])],
            vec![entry(0, 16_384, text("a"), &[])],
        ] {
            assert_eq!(read(bad), None);
        }
        assert_eq!(
            Slots::read(&Reply::Okay, None, &AddressMap::default()),
            None
        );
    }

    #[test]
    fn nodes_are_reached_where_the_user_says() {
        let map = AddressMap::new(|node| Node::new("proxy.local", node.port() + 1));
        let slots = Reply::List(vec![entry(0, 5, text("10.0.0.2"), &[])]);
        let slots = Slots::read(&slots, None, &map).expect("slots");
        assert_eq!(slots.ranges[0].primary, Node::new("proxy.local", 7001));
    }
}
