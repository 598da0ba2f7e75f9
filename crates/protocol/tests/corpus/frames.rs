//! How the bytes of the `link` fuzz target become frames: the bytes 0xFF 0x0A stand between each two.
//!
//! A frame that begins with `B` is a binary one as it stands. One that begins with `S` is a binary one whose header's
//! length and blocks' checksums are put right first: no mutation would ever get past them. Others are text frames.

const BLOCK_HEADER_BYTES: usize = 28;

pub(crate) enum Frame {
    Text(String),
    Binary(Vec<u8>),
}

pub(crate) fn frames(data: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut rest = data;
    loop {
        let end = rest.windows(2).position(|pair| pair == [0xff, b'\n']);
        let piece = &rest[..end.unwrap_or(rest.len())];
        frames.extend(frame(piece));
        match end {
            Some(end) => rest = &rest[end + 2..],
            None => return frames,
        }
    }
}

fn frame(piece: &[u8]) -> Option<Frame> {
    match piece.split_first() {
        Some((b'B', bytes)) => Some(Frame::Binary(bytes.to_vec())),
        Some((b'S', bytes)) => Some(Frame::Binary(sealed(bytes))),
        _ => str::from_utf8(piece).ok().map(|text| Frame::Text(text.to_owned())),
    }
}

/// A header up to the first line break, then blocks.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let header_end = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    let mut frame = u32::try_from(header_end).expect("a fuzz input is small").to_le_bytes().to_vec();
    frame.extend_from_slice(&bytes[..header_end]);
    let mut rest = bytes.get(header_end + 1..).unwrap_or_default().to_vec();
    while rest.len() >= BLOCK_HEADER_BYTES {
        let following = seal_first(&mut rest);
        frame.append(&mut rest);
        rest = following;
    }
    frame.append(&mut rest);
    frame
}

/// Writes mark, length and checksums into the first block, and cuts off what lies behind it.
fn seal_first(bytes: &mut Vec<u8>) -> Vec<u8> {
    let asked = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) as usize;
    let payload = asked.min(bytes.len() - BLOCK_HEADER_BYTES);
    let following = bytes.split_off(BLOCK_HEADER_BYTES + payload);
    let length = u32::try_from(payload).expect("a fuzz input is small");
    let payload_crc = crc32fast::hash(&bytes[BLOCK_HEADER_BYTES..]);
    bytes[..4].copy_from_slice(b"BWL1");
    bytes[4..8].copy_from_slice(&length.to_le_bytes());
    bytes[12..16].copy_from_slice(&payload_crc.to_le_bytes());
    let header_crc = crc32fast::hash(&bytes[..24]);
    bytes[24..28].copy_from_slice(&header_crc.to_le_bytes());
    following
}
