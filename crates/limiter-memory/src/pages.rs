//! [`Pages`]: memory by the page, straight from the operating system.

use memmap2::MmapMut;

/// A run of zeroed words, in whole pages that go back to the operating system the moment they are dropped.
///
/// What goes back to a general allocator instead often stays with the process: one small allocation that has settled
/// between two tables is enough.
#[derive(Default)]
pub(crate) enum Pages {
    /// No page at all.
    #[default]
    None,
    /// Pages of the operating system.
    Mapped(MmapMut),
    /// Memory of the allocator, should the operating system give no pages.
    Heap(Vec<u64>),
}

/// The size of a page, or of several.
pub(crate) const PAGE: usize = 4096;

impl Pages {
    /// Returns zeroed pages, `count` of them.
    pub(crate) fn zeroed(count: usize) -> Self {
        match count * PAGE {
            0 => Self::None,
            bytes => match MmapMut::map_anon(bytes) {
                Ok(pages) => Self::Mapped(pages),
                Err(_) => Self::Heap(vec![0; bytes / size_of::<u64>()]),
            },
        }
    }

    #[inline]
    pub(crate) fn words(&self) -> &[u64] {
        match self {
            Self::None => &[],
            Self::Mapped(pages) => bytemuck::try_cast_slice(pages).unwrap_or_default(),
            Self::Heap(words) => words,
        }
    }

    #[inline]
    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        match self {
            Self::None => &mut [],
            Self::Mapped(pages) => bytemuck::try_cast_slice_mut(pages).unwrap_or_default(),
            Self::Heap(words) => words,
        }
    }
}
