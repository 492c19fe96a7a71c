//! The HTTP server. It listens on loopback only, in a thread of its own.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::{Resource as Limited, getrlimit, setrlimit};
use serde_json::Value;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;

use super::answer;
use super::heard::{Heard, Unserved};
use super::key::ObjectKey;
use super::limits::Limits;
use super::reply::Reply;
use super::resource::Resource;
use super::shared::Shared;
use super::store::{ObjectError, Store};

/// Files that the rest of the process may need open.
const SPARE_FILES: u64 = 128;

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 4096;

/// Connections beyond the limit that are told so. Further ones are closed at once.
const TOLD: usize = 64;

/// A running API server. It ends when it is dropped.
pub struct Server {
    pub(crate) shared: Arc<Shared>,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server without objects. It states this release of Kubernetes, such as `v1.35.0`.
    ///
    /// # Errors
    /// If no socket on loopback can be opened.
    pub fn start(limits: Limits, release: &str) -> io::Result<Server> {
        let most_connections = limits.connections.min(raise_file_limit());
        let shared = Arc::new(Shared::new(Store::new(limits, release), random_token()?, most_connections));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            let socket = TcpSocket::new_v4()?;
            socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
            socket.listen(BACKLOG)?
        };
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("apiserver".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    never = accept(listener, served, limits) => never,
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Server { shared, address, stop: Some(stop), thread: Some(thread) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address with the token as the first step of the path.
    pub fn url(&self) -> String {
        format!("http://{}/{}", self.address, self.shared.token)
    }

    pub fn token(&self) -> &str {
        &self.shared.token
    }

    /// A kubeconfig file by which a client reaches this server. Over plain HTTP, clients send no token of their own, so
    /// the token is in the path.
    pub fn kubeconfig(&self) -> String {
        serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "dryrack", "cluster": {"server": self.url()}}],
            "users": [{"name": "dryrack", "user": {}}],
            "contexts": [{"name": "dryrack", "context": {"cluster": "dryrack", "user": "dryrack"}}],
            "current-context": "dryrack",
        })
        .to_string()
    }

    /// Also serves a kind that a foreign scheduler brings.
    pub fn serve(&self, resource: Resource) {
        self.shared.lock().serve(resource);
    }

    /// The time that new objects get, in seconds since 1970.
    pub fn set_now(&self, seconds: i64) {
        let now = k8s_openapi::jiff::Timestamp::from_second(seconds);
        self.shared.lock().now = now.unwrap_or(k8s_openapi::jiff::Timestamp::MAX);
    }

    /// Creates or replaces an object, given in the JSON form of its kind. Returns its key.
    ///
    /// # Errors
    /// If its kind is not served or it cannot be read as its kind.
    pub fn apply(&self, object: Value) -> Result<ObjectKey, ObjectError> {
        self.shared.lock().apply(object).map(|(_, key)| key)
    }

    /// Removes an object of one of the kinds that every server has. Returns whether it was there.
    pub fn remove(&self, kind: &str, key: &ObjectKey) -> bool {
        let mut store = self.shared.lock();
        let table = store.table_of_kind(kind);
        store.remove(table, key)
    }

    /// An object as it is now.
    pub fn get(&self, kind: &str, key: &ObjectKey) -> Option<Arc<Value>> {
        let store = self.shared.lock();
        store.get(store.table_of_kind(kind), key).ok().map(|stored| Arc::clone(&stored.value))
    }

    /// Answers a request that does not come over the network, whose path has no token: the status and the body. `None`
    /// if it is no request of HTTP. Of a watch, only the status is answered.
    pub fn ask(&self, method: &str, target: &str, media_type: &str, body: &[u8]) -> Option<(u16, String)> {
        let head = Request::builder().method(method).uri(target).header(hyper::header::CONTENT_TYPE, media_type);
        let (parts, ()) = head.body(()).ok()?.into_parts();
        Some(answer::at_once(&self.shared, &parts, body))
    }

    /// What clients wrote since the last call.
    pub fn take_heard(&self) -> Vec<Heard> {
        std::mem::take(&mut self.shared.lock().heard)
    }

    /// What clients asked for in vain, sorted.
    pub fn unserved(&self) -> Vec<Unserved> {
        self.shared.lock().unserved()
    }

    /// How many requests were refused, by HTTP status.
    pub fn refused(&self) -> Vec<(u16, u64)> {
        self.shared.lock().refused.iter().map(|(status, times)| (*status, *times)).collect()
    }

    /// The number of open watches.
    pub fn watches(&self) -> usize {
        self.shared.lock().watches()
    }

    /// Waits until the number of open watches is as wanted. Returns whether it is.
    pub fn wait_for_watches(&self, within: Duration, is_wanted: impl Fn(usize) -> bool) -> bool {
        self.shared.wait_for(within, |store| is_wanted(store.watches()).then_some(())).is_some()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// 128 random bits from the operating system.
fn random_token() -> io::Result<String> {
    use std::io::Read as _;
    let mut bytes = [0u8; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Lets the process open as many files as it may, and returns how many connections that allows.
fn raise_file_limit() -> usize {
    let mut limit = getrlimit(Limited::Nofile);
    if limit.current != limit.maximum {
        let before = limit.current;
        limit.current = limit.maximum;
        if setrlimit(Limited::Nofile, limit).is_err() {
            limit.current = before;
        }
    }
    let files = limit.current.unwrap_or(u64::MAX);
    usize::try_from(files.saturating_sub(SPARE_FILES)).unwrap_or(usize::MAX).max(16)
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, limits: Limits) -> ! {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // No file is free. Connections wait until one is.
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let others = shared.connections.fetch_add(1, Ordering::Relaxed);
        let connection = Counted(Arc::clone(&shared));
        if others >= shared.most_connections + TOLD {
            continue;
        }
        let is_full = others >= shared.most_connections;
        let _small = stream.set_nodelay(true);
        tokio::spawn(serve_connection(stream, connection, limits, is_full));
    }
}

/// A connection that is counted as long as it is open.
struct Counted(Arc<Shared>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn serve_connection(stream: tokio::net::TcpStream, connection: Counted, limits: Limits, is_full: bool) {
    let shared = &connection.0;
    let service = service_fn(|request: Request<Incoming>| {
        let shared = Arc::clone(shared);
        async move { Ok::<Response<Reply>, Infallible>(answer::answer(shared, request, is_full).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .keep_alive(!is_full)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        let status = if error.is_timeout() { 408 } else { 400 };
        if error.is_timeout() || error.is_parse() {
            *shared.lock().refused.entry(status).or_default() += 1;
        }
    }
}
