//! The key of a client address, for limits that apply to each address.

use std::net::{IpAddr, Ipv6Addr};

/// The bits of an IPv6 address that identify a network. A machine may choose the other 64 bits freely.
const NETWORK_BITS: u32 = 64;

/// The key under which an address is counted. Both forms of an IPv4 address have the same key. An IPv6 address counts as its
/// 64-bit network.
#[must_use]
pub fn share_key(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let network = u128::MAX << (Ipv6Addr::BITS - NETWORK_BITS);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & network))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(address: &str) -> String {
        share_key(address.parse().unwrap()).to_string()
    }

    #[test]
    fn all_addresses_of_a_machine_share_one_limit() {
        for (one, other) in
            [("10.0.0.1", "::ffff:10.0.0.1"), ("2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff"), ("fe80::1", "fe80::2")]
        {
            assert_eq!(key(one), key(other));
        }
        for (one, other) in [("10.0.0.1", "10.0.0.2"), ("2001:db8:1:2::1", "2001:db8:1:3::1"), ("10.0.0.1", "::10.0.0.1")] {
            assert_ne!(key(one), key(other));
        }
    }
}
