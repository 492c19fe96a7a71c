//! `--picture`: the first page of a report as PNG or PDF, drawn by a browser that is installed.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::exit::Failure;
use super::output::WholeFile;
use super::progress::with_line;
use dryrack_live::clock::Deadline;
use dryrack_live::probe::{Command, Limits};

/// Browsers that draw a page without a window. All have the options of Chromium.
const BROWSERS: [&str; 8] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "microsoft-edge",
    "brave-browser",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
];

/// The longest time that a browser may take.
const LONGEST: Duration = Duration::from_secs(60);

/// Ends a printed report after one page of A4, less its margins. A table that is wider than the page cannot be scrolled in
/// a picture, so it becomes smaller.
const ONE_PAGE: &str = "<style>
@page { size: A4; }
@media print { main { height: 262mm; overflow: hidden; } }
@media screen { .wide { overflow: visible; background: none; } .wide table { zoom: min(1, var(--fit, 1)); } }
</style>
<script>
addEventListener('DOMContentLoaded', () => {
  for (const box of document.querySelectorAll('.wide')) {
    const table = box.querySelector('table');
    table.style.width = 'min-content';
    box.style.setProperty('--fit', box.clientWidth / table.offsetWidth);
    table.style.width = '';
  }
});
</script>
</head>";

/// The file of a picture.
#[derive(Clone, Debug)]
pub struct PictureFile {
    path: PathBuf,
    is_pdf: bool,
}

/// Reads the argument of `--picture`.
pub fn picture_file(text: &str) -> Result<PictureFile, String> {
    let path = PathBuf::from(text);
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("png") => Ok(PictureFile { path, is_pdf: false }),
        Some("pdf") => Ok(PictureFile { path, is_pdf: true }),
        _ => Err("expected a file that ends with .png or .pdf".to_string()),
    }
}

/// A picture that is to be drawn, and the browser that draws it.
pub struct Picture<'a> {
    file: &'a PictureFile,
    browser: PathBuf,
}

impl<'a> Picture<'a> {
    /// Looks for a browser, so that a run does not end with a report that nothing can draw.
    pub fn of(file: Option<&'a PictureFile>) -> Result<Option<Picture<'a>>, Failure> {
        file.map(|file| Ok(Picture { file, browser: browser()? })).transpose()
    }

    /// Draws the first page of this report.
    pub fn draw(&self, report: &Path) -> Result<(), Failure> {
        let path = &self.file.path;
        let fault = |said: &dyn std::fmt::Display| Failure::file(path, format!("was not written: {said}"));
        let html = std::fs::read_to_string(report).map_err(|error| fault(&error))?;
        let folder = tempfile::tempdir().map_err(|error| fault(&error))?;
        let (page, drawn) = (
            folder.path().join("report.html"),
            folder.path().join(if self.file.is_pdf { "drawn.pdf" } else { "drawn.png" }),
        );
        std::fs::write(&page, html.replacen("</head>", ONE_PAGE, 1)).map_err(|error| fault(&error))?;
        let into = match self.file.is_pdf {
            true => format!("--print-to-pdf={}", drawn.display()),
            false => format!("--screenshot={}", drawn.display()),
        };
        let is_root = folder.path().metadata().is_ok_and(|of_folder| of_folder.uid() == 0);
        let browser = Command::new(&self.browser)
            .args(["--headless", "--disable-gpu", "--no-first-run", "--disable-sync", "--disable-component-update"])
            .args(["--disable-background-networking", "--disable-dev-shm-usage", "--hide-scrollbars"])
            .args(["--no-pdf-header-footer", "--window-size=1280,1810"])
            // Chromium does not start as root with its sandbox.
            .args(is_root.then_some("--no-sandbox"))
            .args([format!("--user-data-dir={}", folder.path().join("profile").display()), into])
            .args([&page]);
        let draw = || browser.output(Limits::until(Deadline::within(LONGEST)));
        with_line(|| format!("drawing {}", path.display()), draw).map_err(|missing| fault(&missing))?;
        let bytes = std::fs::read(&drawn).unwrap_or_default();
        let begins: &[u8] = if self.file.is_pdf { b"%PDF-" } else { b"\x89PNG" };
        if !bytes.starts_with(begins) {
            return Err(fault(&format!("{} drew nothing", self.browser.display())));
        }
        WholeFile::write(path, &bytes)
    }
}

/// The browser that `DRYRACK_BROWSER` names, or the first of the known ones that is installed.
fn browser() -> Result<PathBuf, Failure> {
    if let Some(named) = std::env::var_os("DRYRACK_BROWSER").filter(|named| !named.is_empty()) {
        return Ok(PathBuf::from(named));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    // Joining an absolute path gives this path.
    let found = BROWSERS.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    found.into_iter().find(|file| file.is_file()).ok_or_else(|| {
        Failure::Input(
            "error: `--picture` needs Chromium, Chrome, Edge or Brave, and none is in PATH; install one, or set \
             DRYRACK_BROWSER to its program\n"
                .to_string(),
        )
    })
}
