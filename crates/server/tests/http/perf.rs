use crate::site::Site;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore]
async fn submits() {
    let site = Site::start().await;
    for (label, keyed) in [("plain", false), ("keyed", true)] {
        for conns in [1usize, 16, 64, 256] {
            let per = 8000 / conns.max(4);
            let begin = std::time::Instant::now();
            let tasks: Vec<_> = (0..conns).map(|c| {
            let (addr, admin) = (site.address, site.admin.clone());
            tokio::spawn(async move {
                let mut s = TcpStream::connect(addr).await.unwrap();
                s.set_nodelay(true).unwrap();
                let body = serde_json::json!({"spec": "name: t\nsteps:\n  a: { run: 'true' }\n"}).to_string();
                let mut buf = vec![0; 16384];
                for i in 0..per {
                    let key = if keyed { format!("idempotency-key: {conns}-{c}-{i}\r\n") } else { String::new() };
                    let req = format!("POST /api/jobs HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {admin}\r\n{key}content-length: {}\r\n\r\n{body}", body.len());
                    s.write_all(req.as_bytes()).await.unwrap();
                    let n = s.read(&mut buf).await.unwrap();
                    assert!(buf[..n].starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(&buf[..n]));
                }
            })
        }).collect();
            for t in tasks {
                t.await.unwrap();
            }
            let n = conns * per;
            println!(
                "{label} conns {conns}: {n} in {:?} = {:.0}/s",
                begin.elapsed(),
                n as f64 / begin.elapsed().as_secs_f64()
            );
        }
    }
    // read cost
    let id = site.app.reader.last_job().unwrap().unwrap();
    let begin = std::time::Instant::now();
    for _ in 0..5000 {
        site.app.reader.job(id).unwrap();
    }
    println!("reader.job {:?}", begin.elapsed() / 5000);
    let begin = std::time::Instant::now();
    for _ in 0..5000 {
        site.app.reader.last_event().unwrap();
    }
    println!("reader.last_event {:?}", begin.elapsed() / 5000);
    let stored = site.app.reader.job(id).unwrap().unwrap();
    let begin = std::time::Instant::now();
    for _ in 0..5000 {
        site.app.definitions.load(&stored).unwrap();
    }
    println!("definitions.load {:?}", begin.elapsed() / 5000);
}
