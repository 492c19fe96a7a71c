//! `dryrack minimize`: finds the smallest scenario that still fails in the same way.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::causes::profile_beside;
use super::decider::OutsideChoice;
use super::exit::{Exit, ExitResult, Failure};
use super::guard::guarded;
use super::minimize_seed::minimize_seed;
use super::output::{Format, WholeFile, print, print_json, warn};
use super::progress::with_line;
use super::roots::options;
use super::run::{Overrides, set_flags};
use super::seen_from::{path_seen_from, program_seen_from};
use dryrack_minimize::{
    Failing, Failures, Limits, MinimizeProgress, Minimized, Rehearser, Size, is_composed, minimize as reduce,
    named_profile, with_entries, without_entry,
};
use dryrack_outside::{Command, quoted};
use dryrack_scenario::{Options, Outside, load};
use dryrack_units::counted;
use dryrack_yaml::{Report, read_text};

/// The most candidates that a scheduler in another process decides, if the command line does not say.
pub(super) const MOST_RUNS_OUTSIDE: u64 = 300;

/// The profile for a scenario file that names none.
const DEFAULT_PROFILE: &str = "first-fit";

#[derive(Debug, Args)]
pub struct MinimizeArgs {
    /// Scenario file with an expectation that fails, or the seed of a world of `hunt`
    #[arg(value_name = "FILE|SEED")]
    pub(super) file: PathBuf,
    /// File for the smallest scenario; paths in it are relative to its folder
    #[arg(short, long, value_name = "FILE.yaml")]
    pub(super) out: PathBuf,
    /// Expectation that must still fail, or the fault that an outside scheduler must still have [default: the first
    /// that fails]
    #[arg(long, value_name = "NAME")]
    expect: Option<String>,
    /// Run under this profile, and write it into the result; expectations that hold under the file's own profile must
    /// still hold there
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Scheduler in another process that decides, also written into the result: a release such as `gpustack==2.3.0`,
    /// or a command line; expectations that hold under the file's own profile must still hold there
    #[arg(long, value_name = "CMD", conflicts_with = "profile")]
    pub(super) outside: Option<String>,
    /// Property that the world of a seed breaks [default: the first one that is broken]
    #[arg(long, value_name = "NAME", requires = "outside")]
    pub(super) property: Option<String>,
    /// Kind of the seed's world: models, sglang, fleets, long-runs or tasks [default: the kind that suits the program]
    #[arg(long, value_name = "KIND", requires = "outside")]
    pub(super) world: Option<String>,
    /// Seed of all random draws, also written into the result
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Override a field, as in matrix.gpus=2; the result then has no comments; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Run at most this many candidates [default: no limit, but 300 if a scheduler outside decides]
    #[arg(long, value_name = "N")]
    pub(super) max_runs: Option<u64>,
}

pub fn minimize(args: &MinimizeArgs, format: Format) -> ExitResult {
    if let Some(seed) = args.seed_of_a_world() {
        args.refuse_flags_of_files()?;
        return minimize_seed(args, seed, format);
    }
    args.refuse_flags_of_seeds()?;
    let (text, own_profile) = args.start()?;
    let out = WholeFile::create(&args.out)?;
    let folder = args.out.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    let options = Options { outside: Outside::Allowed, ..options(&args.file) };
    let mut rehearser = Rehearser::new(args.file.display().to_string(), folder, options);
    let run = || guarded(|| rehearser.failures(&text)).map_err(|message| args.fault(&message));
    let found = with_line(|| format!("running {}", args.file.display()), run)?;
    let is_decided_outside = found.as_ref().is_ok_and(|found| found.is_decided_outside);
    let found = found.map_err(|faults| Failure::Input(args.faults_beside_out(&faults.to_string())))?;
    let Some(wanted) = args.wanted(&found)? else {
        // Leave no output file: there is no failure to minimize.
        drop(out);
        return Ok(Exit::NothingSelected);
    };
    let most_records = found.records.saturating_mul(2).saturating_add(100_000);
    // If the expectation fails only under what was typed and holds under the file's own profile, both must stay true.
    let is_typed = args.profile.is_some() || args.outside.is_some();
    let is_of_typed = is_typed && rehearser.holds(&text, wanted, &own_profile, most_records);
    rehearser.holds_under = is_of_typed.then_some(own_profile);
    let watched = MinimizeProgress::default();
    let search = || {
        let mut still_fails = |text: &str| rehearser.still_fails(text, wanted, most_records);
        let runs = args.max_runs.or(is_decided_outside.then_some(MOST_RUNS_OUTSIDE));
        reduce(&text, &mut still_fails, Limits { runs, ..Limits::default() }, &watched)
    };
    let smallest = with_line(|| watched.text(), search).expect("the file was read");
    let left = guarded(|| rehearser.failures(&smallest.text)).map_err(|message| args.fault(&message))?;
    let left = left.map_err(|faults| Failure::Ours(format!("internal error: the result is invalid\n{faults}")))?;
    let mut out = out;
    let written = std::io::Write::write_all(&mut out, smallest.text.as_bytes());
    out.keep(written)?;
    report(args, (&found, wanted), (&left, &smallest), rehearser.holds_under.as_deref(), format)?;
    Ok(Exit::Fine)
}

impl MinimizeArgs {
    /// The seed that was typed in place of a file.
    fn seed_of_a_world(&self) -> Option<u64> {
        let seed = self.file.to_string_lossy().parse().ok();
        seed.filter(|_| !self.file.exists())
    }

    fn refuse_flags_of_files(&self) -> Result<(), Failure> {
        let flags = [
            ("--expect", self.expect.is_some()),
            ("--profile", self.profile.is_some()),
            ("--seed", self.seed.is_some()),
            ("--set", !self.set.is_empty()),
        ];
        refuse(&flags, "the world of a seed is random", "use --property to choose the broken property")
    }

    fn refuse_flags_of_seeds(&self) -> Result<(), Failure> {
        let flags = [("--property", self.property.is_some()), ("--world", self.world.is_some())];
        refuse(&flags, "a scenario file has no random world", "use --expect to choose the expectation that fails")
    }

    fn overrides(&self) -> Result<Overrides, Failure> {
        let overrides = Overrides::under(self.profile.clone()).with_set(&self.set);
        let overrides = overrides.and_outside(OutsideChoice::of(self.outside.as_deref())?);
        Ok(self.seed.map_or(overrides.clone(), |seed| overrides.and_seed(seed)))
    }

    /// The scenario text to start from, with the typed profile, seed and overrides written in, and the name of the
    /// file's own profile.
    fn start(&self) -> Result<(String, String), Failure> {
        let loaded = load(&self.file, &self.overrides()?.lower(&self.file));
        let loaded = loaded.map_err(|faults| Failure::Input(faults.to_string()))?;
        if let (Some(setup), None, None) = (&loaded.outside, &self.outside, &self.profile) {
            self.refuse_program_of_another_folder(&setup.command)?;
        }
        let mut report = Report::default();
        let Some((_, text)) = read_text(&self.file, None, &mut report) else {
            return Err(Failure::Input(report.finish().to_string()));
        };
        let own = named_profile(&text).map(|name| profile_beside(&self.file, &name));
        let own = own.unwrap_or_else(|| DEFAULT_PROFILE.to_string());
        let is_composed = is_composed(&text) || !self.set.is_empty();
        let text = if is_composed { loaded.rehearsal.source } else { text.to_string() };
        // A profile that is typed decides in place of the file's program.
        let text = match self.profile.is_some() {
            true => without_entry(&text, "outside").unwrap_or(text),
            false => text,
        };
        let folder = self.out.parent().unwrap_or(Path::new(""));
        let is_builtin = |profile: &str| profile_beside(Path::new("x/y"), profile) == profile;
        let from_out = |profile: &String| match is_builtin(profile) {
            true => profile.clone(),
            false => path_seen_from(folder, profile),
        };
        let profile = self.profile.as_ref().map(from_out);
        let seed = self.seed.map(|seed| seed.to_string());
        let outside = self.outside.as_ref().map(|program| program_seen_from(folder, program));
        let given = [("outside", &outside), ("profile", &profile), ("seed", &seed)];
        let given: Vec<(&str, &str)> =
            given.into_iter().filter_map(|(key, word)| Some((key, word.as_deref()?))).collect();
        Ok((with_entries(&text, &given).expect("a valid scenario is a map with a title"), own))
    }

    /// Refuses a file whose program would not be the same in the folder of the result, because its command names files
    /// relative to the folder of the scenario.
    fn refuse_program_of_another_folder(&self, command: &Command) -> Result<(), Failure> {
        let folder_of = |file: &Path| file.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        let (here, there) = (folder_of(&self.file), folder_of(&self.out));
        let is_elsewhere = |path: &Path| {
            let found = [here.join(path), there.join(path)].map(|path| path.canonicalize().ok());
            !path.is_absolute() && found[0].is_some() && found[0] != found[1]
        };
        let named = match command {
            Command::Lines(words) => words.iter().map(PathBuf::from).find(|word| is_elsewhere(word)),
            Command::Socket(path) => Some(path.clone()).filter(|path| is_elsewhere(path)),
            Command::KubeScheduler { program, flags } => {
                let flags = flags.iter().map(PathBuf::from);
                [program.clone()].into_iter().chain(flags).find(|word| is_elsewhere(word))
            }
        };
        let Some(named) = named else { return Ok(()) };
        let (file, named) = (self.file.display(), named.display());
        let beside = self.out.file_name().map_or(self.out.clone(), |name| self.file.with_file_name(name));
        Err(Failure::Input(format!(
            "error: {file}: its `outside` names `{named}`, which is looked up in the folder of the result\n  = help: write the \
             result beside the scenario, with `--out {}`\n",
            quoted(&beside.display().to_string())
        )))
    }

    /// The failed expectation that must still fail in the result. If there is none, prints the reason and returns
    /// `None`.
    fn wanted<'f>(&self, found: &'f Failures) -> Result<Option<&'f Failing>, Failure> {
        let failing = found.failing.iter();
        let Some(name) = &self.expect else {
            let first = failing.clone().next();
            if first.is_none() {
                let file = self.file.display();
                let why = format!("{file}: does not fail: every expectation holds; nothing was written\n");
                warn(&why);
            }
            return Ok(first);
        };
        let mut named = failing.clone().filter(|failing| *failing.name == **name || *failing.entry == **name);
        if let Some(known) = named.next() {
            return Ok(Some(known));
        }
        let failing: Vec<&str> = failing.map(|failing| &*failing.name).collect();
        let is_of = |held: &&std::sync::Arc<str>| ***held == **name || held.starts_with(&format!("{name}["));
        if found.holding.iter().any(|held| is_of(&held)) {
            let others = match failing.is_empty() {
                true => "nothing fails".to_string(),
                false => format!("what fails: {}", failing.join(", ")),
            };
            warn(&format!("{}: {name} holds; {others}; nothing was written\n", self.file.display()));
            return Ok(None);
        }
        let known = failing.iter().copied().chain(found.holding.iter().map(|name| &**name));
        let help = match dryrack_nearest::nearest(name, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("these fail: {}", failing.join(", ")),
        };
        Err(Failure::Input(format!("error: --expect: no expectation is named `{name}`; {help}\n")))
    }

    /// The faults of a file that has none in its own folder: what it names is not in the folder of the result. So the help
    /// is not to change the file, but to write the result elsewhere.
    fn faults_beside_out(&self, faults: &str) -> String {
        if self.out.parent() == self.file.parent() {
            return faults.to_string();
        }
        let is_help = |line: &&str| line.trim_start().starts_with("= help: ");
        let without: Vec<&str> = faults.lines().filter(|line| !is_help(line)).collect();
        let beside = self.out.file_name().map_or(self.out.clone(), |name| self.file.with_file_name(name));
        format!(
            "{}\n  = help: write the result beside the scenario, with `--out {}`: files that it names are looked up in the \
             folder of the result\n",
            without.join("\n").trim_end(),
            quoted(&beside.display().to_string())
        )
    }

    fn fault(&self, message: &str) -> Failure {
        let seed = self.seed.map_or(String::new(), |seed| format!(" --seed {seed}"));
        let flag = |name: &str, value: &Option<String>| {
            value.as_ref().map_or(String::new(), |value| format!(" --{name} {}", quoted(value)))
        };
        let decides = flag("profile", &self.profile) + &flag("outside", &self.outside);
        let set = set_flags(&self.set);
        let file = quoted(&self.file.display().to_string());
        Failure::Ours(format!("internal error: {message}\n  repeat with: dryrack run {file}{decides}{seed}{set}\n"))
    }
}

/// Refuses flags that mean nothing here.
fn refuse(flags: &[(&str, bool)], why: &str, help: &str) -> Result<(), Failure> {
    match flags.iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => Err(Failure::Input(format!("error: {flag}: {why}\n  = help: {help}\n"))),
        None => Ok(()),
    }
}

fn report(
    args: &MinimizeArgs,
    (found, wanted): (&Failures, &Failing),
    (left, smallest): (&Failures, &Minimized),
    holds_under: Option<&str>,
    format: Format,
) -> Result<(), Failure> {
    let still = left.failing.iter().find(|failing| failing.entry == wanted.entry).unwrap_or(wanted);
    match format {
        Format::Json => print_json(&json!({
            "out": args.out.display().to_string(),
            "expectation": &*wanted.entry,
            "happened_before": wanted.happened,
            "happens_now": still.happened,
            "holds_under": holds_under,
            "before": sizes(&found.size),
            "after": sizes(&left.size),
            "runs": smallest.runs,
            "invalid": smallest.invalid,
            "limited": smallest.is_cut_short,
        }))?,
        Format::Human => {
            let bold = anstyle::Style::new().bold();
            let (was, is) = (&found.size, &left.size);
            let rows = [
                ("jobs", was.jobs, is.jobs),
                ("nodes", was.nodes, is.nodes),
                ("faults", was.faults, is.faults),
                ("expectations", was.expectations, is.expectations),
                ("lines", was.lines, is.lines),
            ];
            let counts: Vec<String> = rows.iter().map(|(what, was, is)| format!("{what} {was} to {is}")).collect();
            let under = holds_under.map_or(String::new(), |profile| format!(", and still holds under {profile}"));
            let limit =
                if smallest.is_cut_short { "; stopped by --max-runs, so a smaller result may exist" } else { "" };
            print(&format!(
                "{bold}{} still fails{bold:#}{under}\n  before  {}\n  now     {}\n{}: {}; {}, {} refused as \
                 invalid{limit}\n",
                wanted.entry,
                wanted.happened,
                still.happened,
                args.out.display(),
                counts.join(", "),
                counted(smallest.runs as usize, "run"),
                smallest.invalid,
            ))?;
        }
    }
    Ok(())
}

fn sizes(size: &Size) -> Value {
    let Size { jobs, nodes, faults, expectations, lines } = size;
    json!({"jobs": jobs, "nodes": nodes, "faults": faults, "expectations": expectations, "lines": lines})
}
