use super::Reply;

/// One entry of `CLUSTER SLOTS`: a range of slots, and the nodes that serve it, the primary first.
pub(super) struct SlotRange {
    first: i64,
    last: i64,
    nodes: Vec<SlotNode>,
}

/// A node as the cluster tells its clients.
pub(super) struct SlotNode {
    pub(super) id: String,
    pub(super) port: i64,
}

impl SlotRange {
    /// All entries of the reply.
    pub(super) fn list(reply: &Reply) -> Vec<Self> {
        reply.items().iter().filter_map(Self::parse).collect()
    }

    pub(super) fn contains(&self, slot: u16) -> bool {
        (self.first..=self.last).contains(&i64::from(slot))
    }

    pub(super) fn len(&self) -> usize {
        usize::try_from(self.last - self.first + 1).unwrap_or(0)
    }

    pub(super) fn nodes(&self) -> &[SlotNode] {
        &self.nodes
    }

    fn parse(reply: &Reply) -> Option<Self> {
        let [first, last, nodes @ ..] = reply.items() else {
            return None;
        };
        let nodes = nodes.iter().filter_map(|node| match node.items() {
            [_host, port, id, ..] => Some(SlotNode {
                id: id.text()?,
                port: port.int()?,
            }),
            _ => None,
        });
        Some(Self {
            first: first.int()?,
            last: last.int()?,
            nodes: nodes.collect(),
        })
    }
}
