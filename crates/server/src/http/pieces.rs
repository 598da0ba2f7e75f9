//! A piece of a file as an answer: streamed, with `Range` and `ETag`, in bounded memory.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::error::ApiError;

/// One read from the disk.
const READ_BYTES: u64 = 256 * 1024;

/// Where in the file it lies.
pub(super) struct Piece {
    pub from: u64,
    pub bytes: u64,
    /// What it is, whatever it is called.
    pub etag: String,
}

pub(super) fn send(file: File, piece: &Piece, headers: &HeaderMap) -> Result<Response, ApiError> {
    let etag = format!("\"{}\"", piece.etag);
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    if known.is_some_and(|known| known.split(',').any(|one| one.trim() == etag || one.trim() == "*")) {
        return respond(StatusCode::NOT_MODIFIED, &etag, 0, None, Body::empty());
    }
    let asked =
        headers.get(header::RANGE).and_then(|value| value.to_str().ok()).and_then(|text| range(text, piece.bytes));
    match asked {
        None => respond(StatusCode::OK, &etag, piece.bytes, None, body(file, piece.from, piece.bytes)?),
        Some(Some((from, to))) => {
            let shown = format!("bytes {from}-{}/{}", to - 1, piece.bytes);
            let body = body(file, piece.from + from, to - from)?;
            respond(StatusCode::PARTIAL_CONTENT, &etag, to - from, Some(shown), body)
        }
        Some(None) => {
            let shown = format!("bytes */{}", piece.bytes);
            respond(StatusCode::RANGE_NOT_SATISFIABLE, &etag, 0, Some(shown), Body::empty())
        }
    }
}

/// None: what cannot be understood, or asks for several, is answered whole. `Some(None)`: there is nothing there.
fn range(text: &str, bytes: u64) -> Option<Option<(u64, u64)>> {
    let (from, to) = text.strip_prefix("bytes=")?.split_once('-')?;
    let (from, to) = match (from.trim(), to.trim()) {
        ("", "") => return None,
        ("", last) => (bytes.saturating_sub(last.parse().ok()?), bytes),
        (from, "") => (from.parse().ok()?, bytes),
        (from, to) => (from.parse().ok()?, to.parse::<u64>().ok()?.saturating_add(1).min(bytes)),
    };
    Some((from < to).then_some((from, to)))
}

fn respond(
    status: StatusCode,
    etag: &str,
    bytes: u64,
    content_range: Option<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let text = |text: &str| HeaderValue::from_str(text).map_err(|error| ApiError::internal(&error));
    headers.insert(header::ETAG, text(etag)?);
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    // Files of strangers: nobody's browser is to make anything of them.
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if status != StatusCode::NOT_MODIFIED {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes));
    }
    if let Some(shown) = content_range {
        headers.insert(header::CONTENT_RANGE, text(&shown)?);
    }
    Ok(response)
}

/// Read bit by bit, as fast as it is taken.
fn body(mut file: File, from: u64, bytes: u64) -> Result<Body, ApiError> {
    file.seek(SeekFrom::Start(from)).map_err(|error| ApiError::internal(&error))?;
    let stream = futures_util::stream::try_unfold((file, bytes), |(file, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        let read = tokio::task::spawn_blocking(move || read(file, left.min(READ_BYTES)));
        let (file, bytes) = read.await.map_err(std::io::Error::other)??;
        let left = left - bytes.len() as u64;
        Ok::<_, std::io::Error>(Some((bytes, (file, left))))
    });
    Ok(Body::from_stream(stream))
}

fn read(mut file: File, bytes: u64) -> std::io::Result<(File, Bytes)> {
    let mut buffer = vec![0; usize::try_from(bytes).unwrap_or_default()];
    file.read_exact(&mut buffer)?;
    Ok((file, buffer.into()))
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn ranges_are_understood_or_ignored() {
        assert_eq!(range("bytes=0-9", 100), Some(Some((0, 10))));
        assert_eq!(range("bytes=90-", 100), Some(Some((90, 100))));
        assert_eq!(range("bytes=-10", 100), Some(Some((90, 100))));
        assert_eq!(range("bytes=50-1000", 100), Some(Some((50, 100))));
        assert_eq!(range("bytes=100-", 100), Some(None));
        assert_eq!(range("bytes=9-3", 100), Some(None));
        for odd in ["", "bytes=", "lines=1-2", "bytes=a-b", "bytes=1-2,4-5"] {
            assert_eq!(range(odd, 100), None, "{odd}");
        }
    }
}
