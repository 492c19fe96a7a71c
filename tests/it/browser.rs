//! Reports in a real browser: headless Chromium, driven through its DevTools protocol
//! (<https://chromedevtools.github.io/devtools-protocol/>) over a pair of pipes. Each message is a JSON text followed
//! by a zero byte (`--remote-debugging-pipe`).
//!
//! Without Chromium, these tests are reported as not run. `DRYRACK_SHOTS` names a folder for screenshots.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli::{dryrack, empty, stdout};

trials! {
    Chromium: [
        a_report_of_a_run_is_whole_and_its_timeline_zooms,
        a_report_of_a_plan_is_whole,
        the_alternatives_fold_by_a_factor,
        a_picture_has_the_first_page,
        a_picture_has_all_columns_of_a_wide_table,
        a_report_without_its_script_stands_there_whole,
    ]
}

/// The names of the program on Debian and elsewhere.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let all: Vec<PathBuf> = std::env::split_paths(&path).collect();
    NAMES.iter().flat_map(|name| all.iter().map(move |dir| dir.join(name))).find(|file| file.is_file())
}

pub fn chromium_is_here() -> bool {
    chromium().is_some()
}

struct Browser {
    process: Child,
    to: File,
    from: BufReader<File>,
    /// The session of the page that is driven.
    session: String,
    sent: u64,
    /// Messages other than answers.
    events: Vec<Value>,
    _home: TempDir,
}

impl Browser {
    fn start() -> Browser {
        let home = empty();
        let pipes = ["to", "from"].map(|name| home.path().join(name));
        let made = Command::new("mkfifo").args(&pipes).status().expect("mkfifo runs");
        assert!(made.success(), "pipes of our own");
        // A browser reserves much address space and uses little of it. It reads from file descriptor 3 and writes to 4.
        let line =
            "ulimit -S -v unlimited 2>/dev/null || ulimit -v unlimited 2>/dev/null; exec \"$@\" 3<\"$TO\" 4>\"$FROM\"";
        let process = Command::new("sh")
            .args(["-c", line, "sh"])
            .arg(chromium().expect("looked for before"))
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", home.path().join("profile").display()))
            .envs([("TO", &pipes[0]), ("FROM", &pipes[1])])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh runs");
        // Opening a pipe waits for the other end, so both sides open the pipes in the same order.
        let to = File::options().write(true).open(&pipes[0]).expect("a pipe of our own");
        let from = BufReader::new(File::open(&pipes[1]).expect("a pipe of our own"));
        let mut browser =
            Browser { process, to, from, session: String::new(), sent: 0, events: Vec::new(), _home: home };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        browser.session = browser.call("Target.attachToTarget", &attach)["sessionId"].as_str().expect("one").into();
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser
    }

    fn receive(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).expect("the browser speaks");
        assert_eq!(bytes.pop(), Some(0), "the browser ended");
        serde_json::from_slice(&bytes).expect("JSON")
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.sent += 1;
        let mut message = json!({"id": self.sent, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut bytes = serde_json::to_vec(&message).expect("JSON");
        bytes.push(0);
        self.to.write_all(&bytes).expect("the browser listens");
        loop {
            let heard = self.receive();
            if heard["id"] == json!(self.sent) {
                assert!(heard["error"].is_null(), "{method}: {}", heard["error"]);
                return heard["result"].clone();
            }
            self.events.push(heard);
        }
    }

    /// Opens a file, `width` pixels wide, and waits until the page has loaded.
    fn open(&mut self, file: &Path, width: u32, scheme: &str) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600});
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", &features);
        self.events.clear();
        self.call("Page.navigate", &json!({"url": format!("file://{}", file.display())}));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let heard = self.receive();
            self.events.push(heard);
        }
    }

    /// Returns the value of an expression.
    fn eval(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let found = self.call("Runtime.evaluate", &asked);
        assert!(found["exceptionDetails"].is_null(), "{expression}: {found}");
        found["result"]["value"].clone()
    }

    /// Errors and warnings of the page, and all its requests except for the page itself.
    fn complaints(&self, file: &Path) -> Vec<String> {
        let own = format!("file://{}", file.display());
        let complaint = |event: &Value| match event["method"].as_str()? {
            "Runtime.exceptionThrown" | "Log.entryAdded" | "Runtime.consoleAPICalled" | "Network.loadingFailed" => {
                Some(event.to_string())
            }
            "Network.requestWillBeSent" => {
                let url = event["params"]["request"]["url"].as_str().unwrap_or_default();
                (url != own && !url.starts_with("data:")).then(|| format!("asked for {url}"))
            }
            _ => None,
        };
        self.events.iter().filter_map(complaint).collect()
    }

    fn shoot(&mut self, name: &str) {
        let Some(dir) = std::env::var_os("DRYRACK_SHOTS") else { return };
        let shot = self.call("Page.captureScreenshot", &json!({"captureBeyondViewport": true}));
        let coded = shot["data"].as_str().expect("a picture");
        std::fs::write(Path::new(&dir).join(name), decoded(coded)).expect("the folder of pictures is there");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _waited = self.process.wait();
    }
}

/// Decodes Base64 (RFC 4648).
fn decoded(text: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0u32, 0);
    for letter in text.bytes().filter(|letter| *letter != b'=') {
        let value = LETTERS.iter().position(|known| *known == letter).expect("a letter of base64");
        bits = (bits << 6 | value as u32) & 0xffff;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes
}

const SCENARIO: &str = "\
scenario: A day of a small lab, with </title><script>boom()</script> in its name
seed: 3
until: 12h
policies:
  utilization: {min_gpu_utilization: 10%, time_window: 30m, mode: enforce}
nodes:
  - {name: alpha, machine: a100-80g-x4, price_per_hour: 9}
  - {name: beta, machine: a100-80g-x4, price_per_hour: 9}
  - {name: gamma-with-a-very-long-name-indeed.example.internal, machine: l4-x1, price_per_hour: 0.8}
jobs:
  - {name: train, gpus: 2, duration: {exponential: 90m}, arrivals: {poisson: 2/h}, user: ann, queue: default,
     usage: {phases: [{load: 10m}, {train: 40m}, {evaluate: 5m}], repeat: true}}
  - {name: small, gpus: 0.5, duration: {exponential: 40m}, arrivals: {poisson: 3/h}, user: bob, queue: interactive,
     usage: {constant: 40%, noise: 5%}}
  - {name: notebook, gpus: 1, duration: 5h, arrivals: {poisson: 20/d}, user: eve, queue: interactive,
     usage: {steps: [{at: 0s, is: 80%}, {at: 40m, is: 0%}]}}
  - {name: \"giant-<b>&amp;\", at: 2h, gpus: 16, duration: 1h, user: ann, queue: default, usage: 90%}
faults:
  - {at: 5h, node: beta, becomes: crashed}
  - {at: 6h30m, node: beta, becomes: ready}
expect:
  - {name: short_wait, metric: p95(queue_wait) <= 1s}
  - {name: idle_ones_end, count: policy_fired, is: \">= 1\"}
";

/// Faults of the layout: an element wider than the page, text of a plot that is cut off or overlaps other text, and
/// hidden text of a tile.
const FAULTS_OF_LAYOUT: &str = r"(() => {
  const faults = [];
  const wide = document.documentElement.scrollWidth - window.innerWidth;
  if (wide > 0) faults.push('the page is ' + wide + ' pixels too wide');
  for (const plot of document.querySelectorAll('svg.plot:not(.mark)')) {
    const frame = plot.getBoundingClientRect();
    const texts = [...plot.querySelectorAll('text')];
    const boxes = texts.map((text) => text.getBoundingClientRect());
    boxes.forEach((box, one) => {
      const name = texts[one].textContent.trim();
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1) {
        faults.push('`' + name + '` is cut off');
      }
      boxes.slice(one + 1).forEach((other, index) => {
        const across = Math.min(box.right, other.right) - Math.max(box.left, other.left);
        const down = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
        if (across > 1 && down > 3) faults.push('`' + name + '` lies over `' + texts[one + 1 + index].textContent.trim() + '`');
      });
    });
  }
  for (const axis of document.querySelectorAll('.axis')) {
    const shown = [...axis.children].filter((tick) => tick.offsetWidth > 0);
    const boxes = shown.map((tick) => tick.getBoundingClientRect());
    boxes.slice(1).forEach((box, at) => { if (box.left < boxes[at].right) faults.push('ticks overlap: ' + axis.textContent); });
  }
  for (const wide of document.querySelectorAll('.wide')) {
    const more = wide.scrollWidth - wide.clientWidth;
    if (window.innerWidth >= 1280 && more > 0) faults.push('a table is ' + more + ' pixels too wide: ' + wide.ariaLabel);
  }
  return faults;
})()";

/// Paper does not scroll, so anything wider than a page is lost. Chromium lays out an A4 page with margins of 15 mm
/// 1.33 times as wide before it shrinks it (`PrintContext`): 680 pixels become 907.
const FAULTS_OF_PAPER: &str = r"(() => {
  document.querySelector('main').style.width = '907px';
  const right = document.querySelector('main').getBoundingClientRect().right;
  return [...document.querySelectorAll('table')].filter((table) => table.getBoundingClientRect().right > right + 1)
    .map((table) => table.caption.textContent + ' ' + (table.getBoundingClientRect().right - right));
})()";

fn sound(browser: &mut Browser, page: &Path, shots: &str) {
    for (width, scheme) in [(1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")] {
        browser.open(page, width, scheme);
        assert_eq!(browser.eval("window.innerWidth"), json!(width));
        browser.shoot(&format!("{shots}-{width}-{scheme}.png"));
        assert_eq!(browser.eval(FAULTS_OF_LAYOUT), json!([]), "{shots} {width} {scheme}");
        assert_eq!(browser.complaints(page), Vec::<String>::new(), "{shots} {width} {scheme}");
        let paper = browser.eval("getComputedStyle(document.body).backgroundColor");
        assert_eq!(paper == json!("rgb(255, 255, 255)"), scheme == "light", "{paper}");
    }
    browser.open(page, 1280, "light");
    browser.call("Emulation.setEmulatedMedia", &json!({"media": "print"}));
    assert_eq!(browser.eval(FAULTS_OF_PAPER), json!([]), "{shots} on paper");
}

fn a_report_of_a_run_is_whole_and_its_timeline_zooms() {
    let dir = empty();
    std::fs::write(dir.path().join("day.yaml"), SCENARIO).expect("a folder of our own");
    stdout(dir.path(), &["run", "day.yaml", "--report", "report"], 1);
    let page = dir.path().join("report/report.html");
    let mut browser = Browser::start();
    sound(&mut browser, &page, "run");
    // Requests and errors of a page are noticed.
    let bad = dir.path().join("bad.html");
    std::fs::write(&bad, "<img src=nothing.png><script>console.error('boom')</script>").expect("a folder of our own");
    browser.open(&bad, 400, "light");
    let complaints = browser.complaints(&bad).join("\n");
    assert!(complaints.contains("nothing.png") && complaints.contains("boom"), "{complaints}");

    browser.open(&page, 1280, "light");
    let state = "(() => { const t = document.querySelector('.timeline'); const b = t.querySelector('.bars').viewBox.baseVal; \
                 return [Number(t.dataset.from), Number(t.dataset.to), b.x, b.width]; })()";
    assert_eq!(browser.eval(state), json!([0, 1, 0, 1_000_000]));
    let press = |browser: &mut Browser, act: &str| {
        browser.eval(&format!("document.querySelector('.timeline button[data-act={act}]').click()"));
    };
    press(&mut browser, "in");
    assert_eq!(browser.eval(state), json!([0.25, 0.75, 250_000, 500_000]));
    press(&mut browser, "right");
    assert_eq!(browser.eval(state), json!([0.5, 1, 500_000, 500_000]));
    let ticks = "[...document.querySelectorAll('.timeline .axis span')].map((tick) => tick.textContent).join(' ')";
    assert_eq!(browser.eval(ticks), json!("6h 7h 8h 9h 10h 11h 12h"));
    browser.shoot("run-zoomed.png");
    // The keyboard zooms too, and the wheel zooms around the pointer.
    browser.eval("document.querySelector('.timeline .strip').focus()");
    browser.call("Input.dispatchKeyEvent", &json!({"type": "keyDown", "key": "0", "text": "0"}));
    assert_eq!(browser.eval(state), json!([0, 1, 0, 1_000_000]));
    let middle = browser.eval(
        "(() => { const s = document.querySelector('.timeline .bars'); s.scrollIntoView({block: 'center'}); \
         const b = s.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; })()",
    );
    browser.call(
        "Input.dispatchMouseEvent",
        &json!({"type": "mouseWheel", "x": middle[0], "y": middle[1], "deltaX": 0, "deltaY": -100, "modifiers": 2}),
    );
    let zoomed = browser.eval(state);
    let part = |at: usize| zoomed[at].as_f64().expect("a number");
    assert!((part(0) - 0.1).abs() < 1e-3 && (part(1) - 0.9).abs() < 1e-3, "{zoomed}");
    // On paper the strip is narrower, and the script does not run again: names stay in their bars.
    browser.open(&page, 1280, "light");
    browser.call("Emulation.setEmulatedMedia", &json!({"media": "print"}));
    let astray = browser.eval(
        "(() => { document.querySelector('main').style.width = '640px'; \
         const shown = [...document.querySelectorAll('.timeline .labels text')].map((text) => [text, text.getBoundingClientRect()]) \
           .filter(([, box]) => box.width > 0); \
         const bars = [...document.querySelectorAll('.timeline .bars rect[data-n]')] \
           .map((bar) => [bar.dataset.n, bar.getBoundingClientRect()]); \
         const within = ([text, box]) => bars.some(([name, bar]) => name === text.textContent && bar.left <= box.left + 1 && \
           box.right <= bar.right + 1 && bar.top <= box.top + 4 && box.bottom <= bar.bottom + 4); \
         const out = shown.filter((one) => !within(one)).map(([text]) => text.textContent); \
         return [shown.length > 2, out, document.querySelector('.timeline .lanes').getBoundingClientRect().height < 900]; })()",
    );
    assert_eq!(astray, json!([true, [], true]));
    browser.open(&page, 1280, "light");
    // A click on a bar shows its description.
    let told = browser.eval(
        "(() => { document.querySelector('.timeline .bars rect[data-n^=notebook]').dispatchEvent(new MouseEvent('click', \
         {bubbles: true})); return document.querySelector('.timeline .history').textContent; })()",
    );
    let told = told.as_str().expect("text");
    assert!(told.starts_with("notebook-") && told.contains("; ran from "), "{told}");
    assert_eq!(browser.complaints(&page), Vec::<String>::new());
}

const LAB: &str = "\
scenario: A morning on a small fleet
params: {workers: 4}
until: 4h
nodes:
  - {name: old, machine: a100-80g-x8, count: 1, price_per_hour: 9}
  - {name: worker, machine: a100-80g-x8, count: \"${workers}\", price_per_hour: 12}
jobs:
  - {name: train, gpus: 4, duration: {exponential: 1h}, arrivals: {poisson: 20/h}}
  - {name: small, gpus: 1, duration: {exponential: 30m}, arrivals: {poisson: 20/h}}
";

const PLAN: &str = "\
plan: How few workers keep the waiting short, <b>whatever</b> the queue?
scenario: lab.yaml
factors:
  workers: 3..15 by 4
  profile: [fifo, first-fit]
seeds: 1..4
minimize: price_per_hour
constraints:
  - p95(queue_wait) <= 20m
";

/// A folder with the plan and its scenario.
fn planned() -> TempDir {
    let dir = empty();
    for (name, text) in [("lab.yaml", LAB), ("plan.yaml", PLAN)] {
        std::fs::write(dir.path().join(name), text).expect("a folder of our own");
    }
    dir
}

fn a_report_of_a_plan_is_whole() {
    let dir = planned();
    stdout(dir.path(), &["plan", "plan.yaml", "--out", "found"], 0);
    let page = dir.path().join("found/report.html");
    let mut browser = Browser::start();
    sound(&mut browser, &page, "plan");
    let plots = browser.eval("document.querySelectorAll('svg.plot:not(.mark)').length");
    assert_eq!(plots, json!(2), "the frontier and the waits");
}

/// The plan has the factors `workers` and `profile`.
fn the_alternatives_fold_by_a_factor() {
    let dir = planned();
    stdout(dir.path(), &["plan", "plan.yaml", "--out", "found"], 0);
    let mut browser = Browser::start();
    browser.open(&dir.path().join("found/report.html"), 1280, "light");
    const ROWS: &str = "document.querySelectorAll('.foldable tbody tr:not(.fold)').length";
    const SHOWN: &str = "document.querySelectorAll('.foldable tbody tr:not(.fold):not([hidden])').length";
    let all = browser.eval(ROWS);
    let fold = |factor: usize| {
        format!(
            "(() => {{ const select = document.querySelector('.foldable select'); select.selectedIndex = {factor}; \
             select.dispatchEvent(new Event('change')); return document.querySelectorAll('.foldable .fold').length; }})()"
        )
    };
    // `nothing`, `workers`, `profile`.
    assert_eq!(browser.eval(&fold(2)), json!(2), "a header for each profile");
    assert_eq!(browser.eval(ROWS), all, "no row is lost");
    let shown = browser.eval(SHOWN).as_u64().expect("a number");
    assert!(shown > 0 && Some(shown) < all.as_u64(), "only the group of the answer is open: {shown} of {all}");
    assert_eq!(browser.eval("document.querySelector('.foldable .best').hidden"), json!(false));
    browser
        .eval("document.querySelectorAll('.foldable .fold button[aria-expanded=false]').forEach((one) => one.click())");
    assert_eq!(browser.eval(SHOWN), all);
    assert_eq!(browser.eval(&fold(0)), json!(0), "unfolded");
    assert_eq!(browser.eval(SHOWN), all);
}

fn a_picture_has_the_first_page() {
    let dir = planned();
    stdout(dir.path(), &["plan", "plan.yaml", "--out", "found", "--picture", "page.pdf"], 0);
    let pdf = std::fs::read(dir.path().join("page.pdf")).expect("a picture");
    let text = String::from_utf8_lossy(&pdf);
    assert!(text.starts_with("%PDF-"));
    assert_eq!(text.matches("/Type /Page\n").count(), 1, "one page");
    stdout(dir.path(), &["run", "lab.yaml", "--report", "run", "--picture", "page.png"], 0);
    let png = std::fs::read(dir.path().join("page.png")).expect("a picture");
    // The width and the height in the header of a PNG file.
    let size = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("four bytes"));
    assert_eq!((size(16), size(20)), (1280, 1810));
}

/// A table that is wider than the page would be cut off at its margin, or run into it.
fn a_picture_has_all_columns_of_a_wide_table() {
    let many = "constraints: [p95(queue_wait) <= 9h, max(queue_wait) <= 9h, p95(start_wait) <= 9h, max(start_wait) <= 9h, \
                p50(start_wait) <= 9h, mean(run_time) <= 9h, p95(turnaround) <= 9d]\n";
    let dir = planned();
    let start: String = PLAN.split_inclusive('\n').take_while(|line| !line.starts_with("constraints")).collect();
    std::fs::write(dir.path().join("plan.yaml"), start + many).expect("a folder of our own");
    let _met_or_not = dryrack(dir.path(), &["plan", "plan.yaml", "--out", "found", "--picture", "page.png"]).output();
    let png = std::fs::read(dir.path().join("page.png")).expect("a picture");
    let hex: String = png.iter().map(|byte| format!("{byte:02x}")).collect();
    // The columns of pixels that are not of one colour.
    let drawn = format!(
        "(async () => {{ const bytes = Uint8Array.from('{hex}'.match(/../g), (two) => parseInt(two, 16)); \
         const image = await createImageBitmap(new Blob([bytes], {{type: 'image/png'}})); \
         const canvas = new OffscreenCanvas(image.width, image.height); const draw = canvas.getContext('2d'); \
         draw.drawImage(image, 0, 0); const data = new Uint32Array(draw.getImageData(0, 0, image.width, image.height).data.buffer); \
         const isDrawn = (x) => {{ for (let y = 1; y < image.height; y++) if (data[y * image.width + x] !== data[x]) return true; \
         return false; }}; return Math.max(...Array.from({{length: image.width}}, (_, x) => x).filter(isDrawn)); }})()"
    );
    let mut browser = Browser::start();
    let page = dir.path().join("found/report.html");
    browser.open(&page, 1280, "light");
    let box_of = |what: &str| format!("document.querySelector('.dense .wide').{what}");
    let (shown, whole) = (browser.eval(&box_of("clientWidth")), browser.eval(&box_of("scrollWidth")));
    assert!(shown.as_u64() < whole.as_u64(), "the table is too wide for the page: {shown}, {whole}");
    let right = browser.eval("document.querySelector('.dense .wide').getBoundingClientRect().right");
    let last = browser.eval(&drawn);
    assert!(last.as_f64().is_some_and(|last| Some(last) <= right.as_f64()), "{last} is beyond {right}");
}

fn a_report_without_its_script_stands_there_whole() {
    let dir = empty();
    std::fs::write(dir.path().join("day.yaml"), SCENARIO).expect("a folder of our own");
    stdout(dir.path(), &["run", "day.yaml", "--report", "report"], 1);
    let page = dir.path().join("report/report.html");
    let mut browser = Browser::start();
    browser.call("Emulation.setScriptExecutionDisabled", &json!({"value": true}));
    browser.open(&page, 1280, "light");
    // The protocol evaluates expressions even if scripts of the page are disabled.
    assert_eq!(browser.eval("document.querySelector('.timeline .controls').hidden"), json!(true));
    let bars = browser.eval("document.querySelectorAll('.timeline .bars rect[data-n]').length");
    assert!(bars.as_u64().is_some_and(|bars| bars > 20), "{bars}");
    assert_eq!(browser.complaints(&page), Vec::<String>::new());
}
