//! Debian source packages, through an apt of our own.
//!
//! The system's apt configuration is read and never changed: its entries for
//! this release are written as `deb-src` into a private folder, and apt is told
//! to keep its lists and its cache there too.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::command;

/// A private apt, in a folder.
pub struct Archive {
    folder: PathBuf,
}

impl Archive {
    /// The archive kept in `folder`, which is made if it is not there.
    pub fn new(folder: &Path) -> Result<Archive> {
        for part in ["parts", "lists/partial", "cache/archives/partial", "downloads"] {
            std::fs::create_dir_all(folder.join(part))
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        Ok(Archive { folder: folder.to_path_buf() })
    }

    /// Unpacks a source package into `to`, which must not be there yet, and
    /// returns the package's version.
    pub fn unpack(&self, package: &str, to: &Path) -> Result<String> {
        let description = match self.find(package)? {
            Some(found) => found,
            None => {
                if let Err(error) = self.download(package) {
                    return self.unpack_upstream(package, to).context(error);
                }
                self.find(package)?
                    .with_context(|| format!("apt-get source {package} left no .dsc file"))?
            }
        };
        let mut unpack = Command::new("dpkg-source");
        unpack.args(["--no-check", "--extract"]).arg(&description).arg(to);
        command::output(&mut unpack).context("cannot unpack (package dpkg-dev)")?;
        let name = description.file_stem().unwrap_or_default().to_string_lossy();
        Ok(name.rsplit('_').next().unwrap_or_default().to_owned())
    }

    /// The same of what its authors published, without Debian's changes: some
    /// mirrors have only that. The version says so.
    fn unpack_upstream(&self, package: &str, to: &Path) -> Result<String> {
        // What came of the package is not all of it.
        if let Some(description) = self.find(package)? {
            std::fs::remove_file(description)?;
        }
        let mut source = self.apt_get();
        source.args(["source", "--download-only", "--tar-only", package]);
        command::output(source.current_dir(self.downloads()))?;
        let archive = self
            .find_file(package, |name| name.contains(".orig.tar."))?
            .with_context(|| format!("apt-get source {package} left no archive"))?;
        std::fs::create_dir_all(to)?;
        let mut unpack = Command::new("tar");
        unpack.args(["--strip-components=1", "--extract", "--file"]).arg(&archive);
        command::output(unpack.arg("--directory").arg(to))?;
        let name = archive.file_name().unwrap_or_default().to_string_lossy();
        let version = name.rsplit('_').next().and_then(|it| it.split(".orig").next());
        Ok(format!("{}, not changed by Debian", version.unwrap_or_default()))
    }

    /// The description of a package that is already here.
    fn find(&self, package: &str) -> Result<Option<PathBuf>> {
        self.find_file(package, |name| name.ends_with(".dsc"))
    }

    /// A file of a package that is already here.
    fn find_file(&self, package: &str, is_it: fn(&str) -> bool) -> Result<Option<PathBuf>> {
        let prefix = format!("{package}_");
        for entry in std::fs::read_dir(self.downloads())? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(&prefix) && is_it(&name) {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    fn download(&self, package: &str) -> Result<()> {
        let lists = std::fs::read_dir(self.folder.join("lists"))?;
        // Whole or compressed, as apt is set up.
        let is_sources = |name: &str| name.ends_with("_Sources") || name.contains("_Sources.");
        if !lists.flatten().any(|list| is_sources(&list.file_name().to_string_lossy())) {
            self.update()?;
        }
        let mut source = self.apt_get();
        source.args(["source", "--download-only", package]).current_dir(self.downloads());
        command::output(&mut source).map(drop)
    }

    fn update(&self) -> Result<()> {
        let release = release()?;
        let mut written = false;
        for (index, file) in system_lists().iter().enumerate() {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            let (extension, text) = if file.extension().is_some_and(|kind| kind == "sources") {
                ("sources", source_paragraphs(&text, &release))
            } else {
                ("list", source_lines(&text, &release))
            };
            if !text.is_empty() {
                std::fs::write(self.folder.join(format!("parts/{index}.{extension}")), text)?;
                written = true;
            }
        }
        ensure!(written, "the system's apt has no entry for Debian's {release}");
        command::output(self.apt_get().arg("update")).map(drop)
    }

    fn downloads(&self) -> PathBuf {
        self.folder.join("downloads")
    }

    fn apt_get(&self) -> Command {
        let mut apt = Command::new("apt-get");
        for (option, value) in [
            ("Dir::Etc::SourceList", PathBuf::from("/dev/null")),
            ("Dir::Etc::SourceParts", self.folder.join("parts")),
            ("Dir::State::Lists", self.folder.join("lists")),
            ("Dir::Cache", self.folder.join("cache")),
        ] {
            apt.arg("--option").arg(format!("{option}={}", value.display()));
        }
        // The folder is ours, which apt's own unprivileged user cannot enter.
        apt.args(["--option", "APT::Sandbox::User=root"]);
        apt
    }
}

/// Copies the source of a package of Rust's registry to `to`. Cargo fetches it,
/// for a project in `folder` that depends on it and does nothing else.
pub fn unpack_crate(folder: &Path, name: &str, version: &str, to: &Path) -> Result<()> {
    std::fs::create_dir_all(folder.join("src"))?;
    std::fs::write(folder.join("src/lib.rs"), "")?;
    let manifest = format!(
        "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n\
         [dependencies]\n{name} = \"={version}\"\n\n[workspace]\n"
    );
    std::fs::write(folder.join("Cargo.toml"), manifest)?;
    let mut vendor = crate::workspace::cargo();
    vendor.args(["vendor", "--versioned-dirs", "sources"]).current_dir(folder);
    command::output(&mut vendor)?;
    let found = folder.join(format!("sources/{name}-{version}"));
    command::output(Command::new("cp").arg("-a").arg(&found).arg(to)).map(drop)
}

/// The release's name, `bookworm`.
fn release() -> Result<String> {
    let text = std::fs::read_to_string("/etc/os-release").context("cannot read /etc/os-release")?;
    let name = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    Ok(name.context("/etc/os-release has no VERSION_CODENAME")?.trim_matches('"').to_owned())
}

fn system_lists() -> Vec<PathBuf> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    let parts = std::fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten();
    files.extend(parts.map(|entry| entry.path()));
    files.retain(|file| {
        let kind = file.extension().and_then(|kind| kind.to_str());
        file.is_file() && matches!(kind, Some("list" | "sources"))
    });
    files.sort();
    files
}

/// Whether a suite is of this release, and not of somebody else's archive.
fn is_of(suite: &str, release: &str) -> bool {
    suite.strip_prefix(release).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// The `deb` lines for this release in a one-line-style list, as `deb-src`.
fn source_lines(text: &str, release: &str) -> String {
    let mut lines = String::new();
    for line in text.lines() {
        let Some(rest) = line.trim().strip_prefix("deb ") else { continue };
        // The suite is the second word after the bracketed options.
        let after = rest.rsplit_once(']').map_or(rest, |(_, after)| after);
        if after.split_whitespace().nth(1).is_some_and(|suite| is_of(suite, release)) {
            lines.push_str(&format!("deb-src {}\n", rest.trim()));
        }
    }
    lines
}

/// The paragraphs for this release in a deb822-style list, as `deb-src`.
fn source_paragraphs(text: &str, release: &str) -> String {
    let mut kept = String::new();
    for paragraph in text.split("\n\n") {
        let lines = paragraph.lines().filter(|line| !line.starts_with('#'));
        let mut types = false;
        let mut suites = false;
        let mut written = String::new();
        for line in lines {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let mut words = value.split_whitespace();
            if name.eq_ignore_ascii_case("types") {
                types = words.any(|word| word == "deb");
                written.push_str("Types: deb-src\n");
                continue;
            }
            if name.eq_ignore_ascii_case("suites") {
                suites = words.any(|word| is_of(word, release));
            }
            written.push_str(line);
            written.push('\n');
        }
        if types && suites {
            kept.push_str(&written);
            kept.push('\n');
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_this_release_become_sources() {
        let text = "# comment\ndeb http://a/debian bookworm main contrib\n\
                    deb [signed-by=/k.gpg arch=amd64] http://a/debian-security bookworm-security main\n\
                    deb https://b/apt cloud-sdk-bookworm main\ndeb-src http://a/debian bookworm main\n";
        assert_eq!(
            source_lines(text, "bookworm"),
            "deb-src http://a/debian bookworm main contrib\n\
             deb-src [signed-by=/k.gpg arch=amd64] http://a/debian-security bookworm-security main\n"
        );
    }

    #[test]
    fn paragraphs_of_this_release_become_sources() {
        let text = "Types: deb\n# a comment\nURIs: http://a/debian\nSuites: bookworm bookworm-updates\n\
                    Components: main\n\nTypes: deb\nURIs: https://b\nSuites: nodistro\nComponents: main\n\n\
                    Types: deb-src\nURIs: http://c\nSuites: bookworm\nComponents: main\n";
        assert_eq!(
            source_paragraphs(text, "bookworm"),
            "Types: deb-src\nURIs: http://a/debian\nSuites: bookworm bookworm-updates\n\
             Components: main\n\n"
        );
    }
}
