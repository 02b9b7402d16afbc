//! The command line of rustc, as far as it matters here.

use std::path::Path;

use backtrail_plan::worker::Codegen;

/// What one call of rustc is to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RustcArgs {
    /// `--crate-name`.
    pub crate_name: String,
    /// `--crate-type`, all of them; empty means `bin`.
    pub crate_types: Vec<String>,
    /// What `--emit` lists, without paths.
    pub emit: Vec<String>,
    /// `--out-dir`.
    pub out_dir: Option<String>,
    /// `--target`.
    pub target: Option<String>,
    /// The source file.
    pub source: Option<String>,
    /// Whether `-o` or a path in `--emit` names an output.
    pub names_output: bool,
    /// Whether messages come as JSON with artifacts among them.
    pub reports_artifacts: bool,
    /// Whether `--test` is given.
    pub test: bool,
    /// The options behind `-C`, in order.
    codegen: Vec<(String, String)>,
}

/// Options with a value as a word of its own, which is no source file.
const VALUES: [&str; 22] = [
    "-L",
    "-l",
    "-A",
    "-W",
    "-D",
    "-F",
    "-Z",
    "--extern",
    "--cfg",
    "--check-cfg",
    "--cap-lints",
    "--edition",
    "--error-format",
    "--color",
    "--remap-path-prefix",
    "--print",
    "--sysroot",
    "--diagnostic-width",
    "--force-warn",
    "--allow",
    "--warn",
    "--deny",
];

/// The value of option `name` written as `name=value`, or as the next word.
fn value_of<'a>(
    word: &'a str,
    names: &[&str],
    rest: &mut impl Iterator<Item = &'a String>,
) -> Option<&'a str> {
    for name in names {
        if word == *name {
            return rest.next().map(String::as_str);
        }
        if let Some(value) = word.strip_prefix(name).and_then(|value| value.strip_prefix('=')) {
            return Some(value);
        }
    }
    None
}

impl RustcArgs {
    /// Reads the words behind `rustc`.
    pub fn parse(words: &[String]) -> Self {
        let mut args = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if let Some(name) = value_of(word, &["--crate-name"], &mut words) {
                args.crate_name = name.to_owned();
            } else if let Some(types) = value_of(word, &["--crate-type"], &mut words) {
                args.crate_types.extend(types.split(',').map(str::to_owned));
            } else if let Some(kinds) = value_of(word, &["--emit"], &mut words) {
                for kind in kinds.split(',') {
                    let (kind, path) = kind.split_once('=').unwrap_or((kind, ""));
                    args.names_output |= !path.is_empty();
                    args.emit.push(kind.to_owned());
                }
            } else if let Some(folder) = value_of(word, &["--out-dir"], &mut words) {
                args.out_dir = Some(folder.to_owned());
            } else if let Some(target) = value_of(word, &["--target"], &mut words) {
                args.target = Some(target.to_owned());
            } else if let Some(kinds) = value_of(word, &["--json"], &mut words) {
                args.reports_artifacts |= kinds.split(',').any(|kind| kind == "artifacts");
            } else if let Some(option) = value_of(word, &["-C", "--codegen"], &mut words) {
                args.add_codegen(option);
            } else if let Some(option) = word.strip_prefix("-C") {
                args.add_codegen(option);
            } else if VALUES.contains(&word.as_str()) {
                words.next();
            } else {
                match word.as_str() {
                    "-g" => args.add_codegen("debuginfo=2"),
                    "-O" => args.add_codegen("opt-level=3"),
                    "-o" => {
                        args.names_output = true;
                        words.next();
                    }
                    "--test" => args.test = true,
                    _ if !word.starts_with('-') && word.ends_with(".rs") => {
                        args.source = Some(word.clone());
                    }
                    _ => {}
                }
            }
        }
        args
    }

    fn add_codegen(&mut self, option: &str) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        self.codegen.push((name.replace('_', "-"), value.to_owned()));
    }

    /// The value of a `-C` option, which is empty if none was written; the last
    /// one counts.
    pub fn codegen(&self, name: &str) -> Option<&str> {
        let found = self.codegen.iter().rev().find(|(option, _)| option == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Whether the `-C` option `name` is switched on.
    pub fn codegen_flag(&self, name: &str) -> bool {
        matches!(self.codegen(name), Some("" | "yes" | "y" | "on" | "true"))
    }

    /// Whether rustc calls a linker.
    pub fn is_linked(&self) -> bool {
        self.test
            || self.crate_types.is_empty()
            || self.crate_types.iter().any(|kind| ["bin", "dylib", "cdylib"].contains(&&kind[..]))
    }

    /// Whether `kind` is among the crate types.
    pub fn has_type(&self, kind: &str) -> bool {
        !self.test && self.crate_types.iter().any(|own| own == kind)
    }

    /// Whether `kind` is to be emitted.
    pub fn emits(&self, kind: &str) -> bool {
        self.emit.iter().any(|own| own == kind)
    }

    /// What the names of all outputs have in common: name and `extra-filename`.
    pub fn stem(&self) -> String {
        format!("{}{}", self.crate_name, self.codegen("extra-filename").unwrap_or_default())
    }

    /// Whether the user asked for debug information.
    pub fn debug_wanted(&self) -> bool {
        !matches!(self.codegen("debuginfo"), None | Some("0" | "none"))
    }

    /// The linker that rustc would call.
    pub fn linker(&self) -> &Path {
        let by_flavor = match self.codegen("linker-flavor") {
            Some("ld" | "gnu") => "ld",
            Some("ld.lld" | "gnu-lld") => "rust-lld",
            Some("gcc" | "gnu-cc" | "gnu-lld-cc") | None | Some(_) => "cc",
        };
        Path::new(self.codegen("linker").unwrap_or(by_flavor))
    }

    /// How code is generated from this crate's bitcode. Functions name their
    /// processor and its features themselves, with `native` resolved; what is
    /// said here counts for what rustc adds without saying so.
    pub fn generator(&self) -> Codegen {
        let cpu = self.codegen("target-cpu").filter(|cpu| *cpu != "native");
        Codegen {
            cpu: cpu.unwrap_or("x86-64").to_owned(),
            features: self.codegen("target-feature").unwrap_or_default().to_owned(),
            opt_level: match self.codegen("opt-level").unwrap_or("0") {
                "0" => 0,
                "1" => 1,
                "3" => 3,
                _ => 2,
            },
            relocation_model: self.codegen("relocation-model").unwrap_or("pic").to_owned(),
            code_model: self.codegen("code-model").unwrap_or_default().to_owned(),
            separate_sections: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_call_by_cargo_is_understood() {
        let args = RustcArgs::parse(&words(
            "--crate-name p --edition=2024 src/main.rs --error-format=json \
             --json=diagnostic-rendered-ansi,artifacts,future-incompat --crate-type bin \
             --emit=dep-info,link -C opt-level=3 -C embed-bitcode=no --check-cfg x.rs \
             -C metadata=acdc -C extra-filename=-7ff4 --out-dir /t/deps -Cstrip=debuginfo \
             --codegen linker=clang -L dependency=/t/deps",
        ));
        assert_eq!(args.stem(), "p-7ff4");
        assert_eq!(args.source.as_deref(), Some("src/main.rs"));
        assert_eq!(args.out_dir.as_deref(), Some("/t/deps"));
        assert_eq!(args.linker(), Path::new("clang"));
        assert_eq!(args.codegen("strip"), Some("debuginfo"));
        assert!(args.is_linked() && args.emits("link") && args.reports_artifacts);
        assert!(!args.debug_wanted() && !args.names_output && !args.codegen_flag("embed-bitcode"));
        assert_eq!(args.generator().opt_level, 3);
    }

    #[test]
    fn the_last_option_counts() {
        let args = RustcArgs::parse(&words("-g -C debuginfo=0 -Copt-level=3 -C opt_level=s"));
        assert!(!args.debug_wanted());
        assert_eq!(args.generator().opt_level, 2);
        assert!(args.is_linked(), "a crate without a type is an executable");
    }

    #[test]
    fn libraries_are_not_linked_but_their_tests_are() {
        let library = RustcArgs::parse(&words("--crate-type lib"));
        assert!(!library.is_linked() && library.has_type("lib"));
        let test = RustcArgs::parse(&words("--crate-type lib --test"));
        assert!(test.is_linked() && !test.has_type("lib"));
    }

    #[test]
    fn linkers_follow_from_their_flavor() {
        let linker = |text: &str| RustcArgs::parse(&words(text)).linker().to_owned();
        assert_eq!(linker(""), Path::new("cc"));
        assert_eq!(linker("-C linker-flavor=ld.lld"), Path::new("rust-lld"));
        assert_eq!(linker("-C linker-flavor=ld -C linker=/x/ld.mold"), Path::new("/x/ld.mold"));
    }
}
