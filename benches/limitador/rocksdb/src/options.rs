/// How a database would be opened. Keeps nothing, for none is.
#[derive(Default)]
pub struct Options;

/// How values would be compressed.
pub enum DBCompressionType {
    /// Not at all.
    None,
    /// By bzip2.
    Bz2,
}

/// What would become of a value.
pub enum CompactionDecision {
    /// It stays.
    Keep,
    /// It goes.
    Remove,
}

/// Values that would be merged: none.
pub struct MergeOperands;

impl<'a> IntoIterator for &'a MergeOperands {
    type Item = &'a [u8];
    type IntoIter = std::iter::Empty<&'a [u8]>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::empty()
    }
}

impl Options {
    /// Does nothing.
    pub fn create_if_missing(&mut self, _: bool) {}

    /// Does nothing.
    pub fn set_compression_type(&mut self, _: DBCompressionType) {}

    /// Does nothing.
    pub fn set_compaction_filter<F>(&mut self, _: &str, _: F)
    where
        F: FnMut(u32, &[u8], &[u8]) -> CompactionDecision,
    {
    }

    /// Does nothing.
    pub fn set_merge_operator_associative<F>(&mut self, _: &str, _: F)
    where
        F: Fn(&[u8], Option<&[u8]>, &MergeOperands) -> Option<Vec<u8>>,
    {
    }
}
