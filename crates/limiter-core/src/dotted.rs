//! [`Dotted`]: an address of version 4 as text.

use std::net::Ipv4Addr;

/// An address of version 4 as `Display` writes it, made in a fraction of the time: it is on the way of every request that is limited
/// by address.
///
/// The text grows in a register and is stored once: what is stored in pieces and then read as a whole makes a processor wait.
pub(crate) struct Dotted {
    /// The text, and behind it what does not belong to it.
    pub(crate) bytes: [u8; 16],
    pub(crate) len: u8,
}

/// Numbers of an address as text, with a dot after each, the first letter lowest; and how long that is.
#[derive(Clone, Copy)]
struct Numbers {
    text: u64,
    len: u8,
}

/// Each number with its dot, in as few cache lines as they fit: they are rarely at hand when a request comes.
static DOTTED: [u32; 256] = all_dotted();

impl Dotted {
    #[inline]
    pub(crate) fn new(address: Ipv4Addr) -> Self {
        let [a, b, c, d] = address.octets();
        let first = Numbers::of(a).and(Numbers::of(b));
        let second = Numbers::of(c).and(Numbers::of(d));
        let text = u128::from(first.text) | u128::from(second.text) << (8 * first.len);
        Self {
            bytes: text.to_le_bytes(),
            // There is no dot after the last one.
            len: first.len + second.len - 1,
        }
    }
}

impl Numbers {
    #[inline]
    fn of(octet: u8) -> Self {
        let dotted = DOTTED.get(usize::from(octet)).copied().unwrap_or_default();
        // From 10 and from 100 on there is a letter more.
        let len = 2 + u8::from(octet > 9) + u8::from(octet > 99);
        Self {
            text: dotted.into(),
            len,
        }
    }

    #[inline]
    const fn and(self, next: Self) -> Self {
        Self {
            text: self.text | next.text << (8 * self.len),
            len: self.len + next.len,
        }
    }
}

const fn all_dotted() -> [u32; 256] {
    let mut all = [0; 256];
    let mut rest: &mut [u32] = &mut all;
    let mut octet = 0;
    while let [first, others @ ..] = rest {
        *first = dotted(octet);
        octet = octet.wrapping_add(1);
        rest = others;
    }
    all
}

const fn dotted(octet: u8) -> u32 {
    let [hundreds, tens, ones] = [octet / 100, octet / 10 % 10, octet % 10];
    let [hundreds, tens, ones] = [b'0' + hundreds, b'0' + tens, b'0' + ones];
    u32::from_le_bytes(match octet {
        0..10 => [ones, b'.', 0, 0],
        10..100 => [tens, ones, b'.', 0],
        100.. => [hundreds, tens, ones, b'.'],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_octet_is_written_as_usual() {
        for octet in 0..=255 {
            let address = Ipv4Addr::new(octet, octet, octet, octet);
            let text = Dotted::new(address);
            let written = &text.bytes[..text.len.into()];
            assert_eq!(written, address.to_string().as_bytes());
        }
    }
}
