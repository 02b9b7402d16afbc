//! Source positions.
//!
//! LLVM has one piece of metadata per position and scope; positions that differ
//! in nothing the model keeps become one.

use std::collections::HashMap;

use backtrail_ir::IndexMap;
use backtrail_ir::{File, Loc, Location};
use backtrail_llvm_ffi::{Function, Metadata, MetadataKind, Module};

use super::symbols::linkage_name;
use crate::identity::ById;

/// Collects files and source positions.
#[derive(Default)]
pub struct Locations {
    files: IndexMap<File, String>,
    file_numbers: HashMap<String, File>,
    files_of_metadata: ById<File>,
    /// Names of functions of the source, by position in this list.
    names: Vec<String>,
    name_numbers: HashMap<String, usize>,
    /// The linkage names of the functions whose subprograms these are. Line
    /// tables alone have no linkage names, but the functions do.
    linkage_names: ById<String>,
    /// The file and the function of each scope.
    scopes: ById<Scope>,
    locations: IndexMap<Loc, Location>,
    known: HashMap<Key, Loc>,
    of_metadata: ById<Loc>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Scope {
    file: File,
    name: usize,
    /// The line of the function's definition.
    line: u32,
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    line: u32,
    column: u32,
    scope: Scope,
    inlined_at: Option<Loc>,
}

impl Locations {
    /// Collects positions of `module`.
    pub fn of(module: &Module<'_>) -> Self {
        let named = |function: Function<'_>| {
            function.subprogram().map(|it| (it.id(), linkage_name(*function)))
        };
        let linkage_names = module.functions().filter_map(named).collect();
        Self { linkage_names, ..Self::default() }
    }

    /// The files and positions collected.
    pub fn finish(self) -> (IndexMap<File, String>, IndexMap<Loc, Location>) {
        (self.files, self.locations)
    }

    /// The position of an instruction.
    pub fn of_instruction(&mut self, location: Metadata<'_>) -> Loc {
        // From the innermost outwards to one that is known, and back.
        let mut unknown = Vec::new();
        let mut next = Some(location);
        let mut outer = None;
        while let Some(location) = next {
            if let Some(known) = self.of_metadata.get(&location.id()) {
                outer = Some(*known);
                break;
            }
            unknown.push(location);
            next = location.inlined_at();
        }
        for location in unknown.into_iter().rev() {
            let scope = self.scope(location.location_scope());
            let (line, column) = location.line_and_column().unwrap_or_default();
            let loc = self.position(Key { line, column, scope, inlined_at: outer });
            self.of_metadata.insert(location.id(), loc);
            outer = Some(loc);
        }
        outer.expect("a position is its own innermost one")
    }

    /// Where a function is defined.
    pub fn of_function(&mut self, function: Function<'_>) -> Option<Loc> {
        let subprogram = function.subprogram()?;
        let line = subprogram.subprogram_line()?;
        let scope = self.scope(Some(subprogram));
        Some(self.position(Key { line, column: 0, scope, inlined_at: None }))
    }

    fn position(&mut self, key: Key) -> Loc {
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let loc = self.locations.push(Location {
            file: key.scope.file,
            line: key.line,
            column: key.column,
            scope: self.names[key.scope.name].clone(),
            scope_line: key.scope.line,
            inlined_at: key.inlined_at,
        });
        self.known.insert(key, loc);
        loc
    }

    /// The file of a scope and the function of the source it is in.
    fn scope(&mut self, scope: Option<Metadata<'_>>) -> Scope {
        if let Some(known) = scope.and_then(|it| self.scopes.get(&it.id())) {
            return *known;
        }
        let file = self.file(scope.and_then(Metadata::file));
        let (mut name, mut line) = (None, 0);
        let mut next = scope;
        while let Some(it) = next {
            if it.kind() == MetadataKind::Subprogram {
                let linkage_name = self.linkage_names.get(&it.id()).cloned();
                name = linkage_name.or_else(|| it.subprogram_name());
                line = it.subprogram_line().unwrap_or(0);
                break;
            }
            if let Some(known) = self.scopes.get(&it.id()) {
                name = Some(self.names[known.name].clone());
                line = known.line;
                break;
            }
            next = it.enclosing_scope();
        }
        let name = name.unwrap_or_default();
        let number = *self.name_numbers.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            self.names.len() - 1
        });
        let result = Scope { file, name: number, line };
        if let Some(scope) = scope {
            self.scopes.insert(scope.id(), result);
        }
        result
    }

    fn file(&mut self, file: Option<Metadata<'_>>) -> File {
        if let Some(known) = file.and_then(|it| self.files_of_metadata.get(&it.id())) {
            return *known;
        }
        let path = file.and_then(Metadata::path).unwrap_or_default();
        let number =
            *self.file_numbers.entry(path).or_insert_with_key(|path| self.files.push(path.clone()));
        if let Some(file) = file {
            self.files_of_metadata.insert(file.id(), number);
        }
        number
    }
}
