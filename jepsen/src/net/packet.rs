//! Reads the fields of an IPv4 packet that the switch needs.

/// The bytes of an IPv4 header without options.
const HEADER_BYTES: usize = 20;
/// The protocol number of TCP.
const TCP: u8 = 6;

/// The last bytes of the source and destination addresses; `None` if the packet is not IPv4.
pub(super) fn route(packet: &[u8]) -> Option<(u8, u8)> {
    (packet.len() >= HEADER_BYTES && packet[0] >> 4 == 4).then(|| (packet[15], packet[19]))
}

/// Whether it is a TCP segment with data.
pub(super) fn has_data(packet: &[u8]) -> bool {
    let header = usize::from(packet[0] & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    if packet[9] != TCP || packet.len() < header + HEADER_BYTES {
        return false;
    }
    total > header + usize::from(packet[header + 12] >> 4) * 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(data: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 40];
        packet[0] = 0x45;
        packet[3] = u8::try_from(40 + data.len()).unwrap();
        packet[9] = TCP;
        (packet[15], packet[19]) = (250, 3);
        packet[32] = 5 << 4;
        packet.extend_from_slice(data);
        packet
    }

    #[test]
    fn an_acknowledgement_has_no_data_and_an_answer_has() {
        assert_eq!(route(&segment(b"")), Some((250, 3)));
        assert!(!has_data(&segment(b"")));
        assert!(has_data(&segment(b"HTTP/1.1 200 OK")));
    }

    #[test]
    fn a_packet_that_is_not_ipv4_has_no_route() {
        assert_eq!(route(&[0x60; 40]), None);
        assert_eq!(route(&[0x45; 4]), None);
    }
}
