//! The beginning of an id, as people type it, as a range of whole ids. Every store lists jobs by it.

use uuid::Uuid;

/// Where an id's text has its hyphens.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];
const TEXT_LEN: usize = 36;

/// The lowest and the highest id whose lower-case text begins with `prefix`; none if no id's text does.
pub fn range(prefix: &str) -> Option<(Uuid, Uuid)> {
    if prefix.len() > TEXT_LEN {
        return None;
    }
    let (mut low, mut digits) = (0u128, 0u32);
    for (place, byte) in prefix.bytes().enumerate() {
        if HYPHENS.contains(&place) {
            if byte != b'-' {
                return None;
            }
            continue;
        }
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        low = low << 4 | u128::from(digit);
        digits += 1;
    }
    let open_bits = 128 - 4 * digits;
    let low = low.checked_shl(open_bits).unwrap_or(0);
    let high = low | u128::MAX.checked_shr(128 - open_bits).unwrap_or(0);
    Some((Uuid::from_u128(low), Uuid::from_u128(high)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_range() {
        let whole = "0190163d-8694-739b-aea5-966c26f8ad91";
        let id = Uuid::parse_str(whole).expect("an id");
        for end in 0..=whole.len() {
            let (low, high) = range(&whole[..end]).expect("a prefix of an id");
            assert!(low <= id && id <= high, "{}", &whole[..end]);
            assert!(low.to_string().starts_with(&whole[..end]) && high.to_string().starts_with(&whole[..end]));
        }
        assert_eq!(range(whole), Some((id, id)));
    }

    #[test]
    fn what_no_id_begins_with_has_no_range() {
        for text in ["x", "0190163D", "0190163d8", "-", "0190163d-8694-739b-aea5-966c26f8ad910", "é"] {
            assert_eq!(range(text), None, "{text}");
        }
    }
}
