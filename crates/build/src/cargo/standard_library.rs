//! The crates that came with the compiler, on request.
//!
//! Their libraries hold objects with bitcode in a section `.llvmbc`, which is
//! there for LTO: from before the last optimisations, so that code made from it
//! is not quite the code of the object. The link gets copies of the libraries
//! whose objects have records. `compiler_builtins` is left as it is: the code
//! generator calls it behind everyone's back, probes included.

use std::fs;
use std::path::Path;

use backtrail_machine::elf::Elf;
use backtrail_plan::worker::Codegen;

use super::library;
use super::units::{Compilation, Made};
use crate::Error;
use crate::cache::Cache;
use crate::carry::frame;
use crate::variant::tool_fingerprint;

/// Where an object has its bitcode.
const BITCODE_SECTION: &str = ".llvmbc";

/// Replaces the compiler's own libraries in `words` by copies with records.
pub fn replace(compilation: &Compilation, words: &mut [String]) -> Result<(), Error> {
    let folder = compilation.folder.join("std");
    fs::create_dir_all(&folder).map_err(Error::write(&folder))?;
    for word in words {
        let path = Path::new(&*word).to_owned();
        let Some(name) = path.file_name() else { continue };
        let shown = name.to_string_lossy();
        let is_library = path.starts_with(&compilation.sysroot)
            && shown.ends_with(".rlib")
            && !shown.starts_with("libcompiler_builtins-");
        if !is_library {
            continue;
        }
        if let Some(bytes) = with_records(compilation, &path, &folder)? {
            let copy = folder.join(name);
            fs::write(&copy, bytes).map_err(Error::write(&copy))?;
            *word = copy.display().to_string();
        }
    }
    Ok(())
}

/// The library at `path` with records, made once for all links.
fn with_records(
    compilation: &Compilation,
    path: &Path,
    folder: &Path,
) -> Result<Option<Vec<u8>>, Error> {
    let contents = fs::read(path).map_err(Error::read(path))?;
    let key = frame::hash(&[b"standard library", &contents, &tool_fingerprint()]);
    let cache = Cache::open();
    if let Some(bytes) = cache.get(&key) {
        return Ok(Some(bytes));
    }
    let made = library::change(path, |name, bytes| {
        let machine = |error| Error::machine(path)(error);
        let Ok(elf) = Elf::parse(bytes) else { return Ok(None) };
        let Some(bitcode) = elf.section(BITCODE_SECTION).map_err(machine)? else {
            return Ok(None);
        };
        let file = folder.join(name).with_extension("bc");
        fs::write(&file, bitcode).map_err(Error::write(&file))?;
        let made = compilation.attach_made(how(name), bytes, &file)?;
        Ok(made.map(|bytes| library::Member { name: name.to_owned(), bytes }))
    })?;
    if let Some(bytes) = &made {
        cache.put(&key, bytes)?;
    }
    Ok(made)
}

/// How the member `name` was made, `CRATE-HASH.CRATE.HASH-cgu.N.rcgu.o`.
fn how(name: &str) -> Made {
    let crate_name = name.split(['-', '.']).next().unwrap_or(name);
    let number = name.rsplit_once("-cgu.").map_or("0", |(_, rest)| rest);
    let number = number.split('.').next().unwrap_or("0");
    Made {
        name: format!("rust/{crate_name}[{number}]"),
        codegen: Codegen {
            cpu: "x86-64".to_owned(),
            opt_level: 3,
            relocation_model: "pic".to_owned(),
            separate_sections: true,
            ..Codegen::default()
        },
        debug_wanted: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_named_by_their_crate() {
        assert_eq!(how("std-d123.std.e282-cgu.0.rcgu.o").name, "rust/std[0]");
        assert_eq!(how("x.o").name, "rust/x[0]");
    }
}
