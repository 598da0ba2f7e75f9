//! `bowline up`: server and worker in one process, for one machine and for the first five minutes.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use cli::args::UpArgs;
use cli::context::Context;
use spec::config::worker::LogFormat;
use worker::StopLevel;

use crate::local_worker::LocalWorker;
use crate::server::{read_config, ready, start};
use crate::signals::{StopSignal, StopSignals};
use crate::{Failed, limits, logging};

/// How long `up` waits for a second Ctrl-C while steps run.
const SECOND_THOUGHTS: Duration = Duration::from_secs(3);

pub(crate) async fn run(args: UpArgs) -> ExitCode {
    logging::start("warn", LogFormat::Text);
    limits::raise_open_files();
    match serve(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => failed.tell(),
    }
}

async fn serve(args: UpArgs) -> Result<(), Failed> {
    let mut signals = StopSignals::new().map_err(Failed::other)?;
    let mut config = read_config(None)?;
    if let Some(listen) = args.listen {
        config.listen = listen;
    }
    let data = match args.data {
        Some(data) => data,
        None => default_data()?,
    };
    if let Some(tasks) = args.tasks.as_ref().filter(|tasks| !tasks.is_dir()) {
        let message = format!("there is no task folder {}: make it first, or leave out --tasks", tasks.display());
        return Err(Failed::usage(message));
    }
    let server = tokio::select! {
        started = start(&config, &data, args.tasks.as_deref()) => started?,
        _ = signals.next() => return Ok(()),
    };
    let url = format!("http://{}", server.address);
    let remembered = Remembered::new(&url, &server.admin_token);

    let worker = if args.no_worker {
        None
    } else {
        let state = data.join("worker");
        let enrolled = state.join("credential").exists();
        let token = if enrolled { None } else { Some(server.enroll_token().await.map_err(Failed::other)?) };
        Some(LocalWorker::start(url.clone(), &state, args.slots, token)?)
    };
    // For scripts, and for those who want to see what a kill does.
    let pid_file = data.join("up.pid");
    std::fs::write(&pid_file, format!("{}\n", std::process::id())).map_err(Failed::other)?;
    eprintln!("Bowline {} is up at {url}", env!("CARGO_PKG_VERSION"));
    eprintln!("  data    {}", data.display());
    eprintln!("  token   {}", data.join("admin.token").display());
    eprintln!("  try     bowline exec -- echo hello");
    ready(&url);

    let signal = signals.next().await;
    if let Some(worker) = worker {
        let running = server.busy_slots().await;
        let mut end_steps = false;
        if running > 0 {
            eprintln!("stopping; running steps go on, and the next `bowline up` finds them again");
            if signal == StopSignal::Interrupt {
                eprintln!("press Ctrl-C again within {} s to end them too", SECOND_THOUGHTS.as_secs());
                end_steps = tokio::time::timeout(SECOND_THOUGHTS, signals.next()).await.is_ok();
            }
        }
        if end_steps {
            eprintln!("ending the running steps");
        }
        worker.stop(if end_steps { StopLevel::EndSteps } else { StopLevel::Leave });
        worker.ended().await;
        let ended = tokio::task::spawn_blocking(move || worker.join()).await;
        if let Ok(Err(error)) = ended {
            eprintln!("warning: the worker: {error}");
        }
    }
    server.stop().await;
    remembered.put_back();
    // One that is left behind is written over by the next start.
    let _ = std::fs::remove_file(&pid_file);
    Ok(())
}

/// So that the other commands find this server without being told, while it is there.
struct Remembered {
    ours: Context,
    /// The server that they used before, where it was another.
    before: Option<Context>,
}

impl Remembered {
    fn new(url: &str, token: &str) -> Remembered {
        let ours = Context { server: url.to_owned(), token: Some(token.to_owned()) };
        let before = Context::path().and_then(|path| Context::load(&path)).ok().flatten();
        if let Err(error) = Context::path().and_then(|path| ours.save(&path)) {
            eprintln!("warning: {error}; give other commands --server {url} and --token");
        }
        let before = before.filter(|before| before.server != ours.server);
        Remembered { ours, before }
    }

    /// Unless somebody wrote another meanwhile.
    fn put_back(self) {
        let Some(before) = self.before else { return };
        let put_back = || {
            let path = Context::path()?;
            if Context::load(&path)?.as_ref() == Some(&self.ours) { before.save(&path) } else { Ok(()) }
        };
        if let Err(error) = put_back() {
            eprintln!("warning: {error}; other commands still look for this server");
        }
    }
}

fn default_data() -> Result<PathBuf, Failed> {
    let folder = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let share = folder("XDG_DATA_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/share")));
    share
        .map(|share| share.join("bowline"))
        .ok_or_else(|| Failed::usage("HOME is not set; say where the data goes with --data DIR"))
}
