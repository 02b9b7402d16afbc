//! Debug information, as far as source positions need it.
//!
//! Operand positions are those of `DebugInfoMetadata.h` and have not changed
//! between LLVM 19 and 22: of every scope, operand 0 is the file and operand 1
//! the enclosing scope; of a subprogram, operand 2 is the name and operand 3
//! the linkage name.

use std::borrow::Cow;
use std::path::Path;

use crate::Module;
use crate::message::text_at;
use crate::table::{MetadataRef, ValueRef};

/// What sort of metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataKind {
    /// A string.
    String,
    /// A list.
    Tuple,
    /// A source position.
    Location,
    /// A source file.
    File,
    /// A function of the source.
    Subprogram,
    /// A block of the source, or a change of file within one.
    LexicalBlock,
    /// Anything else.
    Other,
}

/// A piece of metadata.
#[derive(Clone, Copy)]
pub struct Metadata<'m> {
    raw: MetadataRef,
    module: &'m Module<'m>,
}

impl<'m> Metadata<'m> {
    pub(crate) fn new(raw: MetadataRef, module: &'m Module<'m>) -> Self {
        Self { raw, module }
    }

    pub(crate) fn raw(self) -> MetadataRef {
        self.raw
    }

    /// A number that is the same for the same metadata of one module.
    pub fn id(self) -> usize {
        self.raw.as_ptr() as usize
    }

    /// What sort it is.
    pub fn kind(self) -> MetadataKind {
        // SAFETY: the metadata is alive.
        match unsafe { (self.module.functions_table().LLVMGetMetadataKind)(self.raw) } {
            0 => MetadataKind::String,
            4 => MetadataKind::Tuple,
            5 => MetadataKind::Location,
            15 => MetadataKind::File,
            17 => MetadataKind::Subprogram,
            18 | 19 => MetadataKind::LexicalBlock,
            _ => MetadataKind::Other,
        }
    }

    /// Line and column of a source position.
    pub fn line_and_column(self) -> Option<(u32, u32)> {
        let functions = self.module.functions_table();
        // SAFETY: the metadata is a location.
        (self.kind() == MetadataKind::Location).then(|| unsafe {
            (
                (functions.LLVMDILocationGetLine)(self.raw),
                (functions.LLVMDILocationGetColumn)(self.raw),
            )
        })
    }

    /// The scope a source position is in.
    pub fn location_scope(self) -> Option<Self> {
        if self.kind() != MetadataKind::Location {
            return None;
        }
        // SAFETY: the metadata is a location.
        unsafe { (self.module.functions_table().LLVMDILocationGetScope)(self.raw) }
            .map(|raw| Self::new(raw, self.module))
    }

    /// The position of the call that was inlined.
    pub fn inlined_at(self) -> Option<Self> {
        if self.kind() != MetadataKind::Location {
            return None;
        }
        // SAFETY: the metadata is a location.
        unsafe { (self.module.functions_table().LLVMDILocationGetInlinedAt)(self.raw) }
            .map(|raw| Self::new(raw, self.module))
    }

    /// The file a subprogram or lexical block is in.
    pub fn file(self) -> Option<Self> {
        if !matches!(self.kind(), MetadataKind::Subprogram | MetadataKind::LexicalBlock) {
            return None;
        }
        // SAFETY: the metadata is a scope.
        unsafe { (self.module.functions_table().LLVMDIScopeGetFile)(self.raw) }
            .map(|raw| Self::new(raw, self.module))
    }

    /// The scope a lexical block or subprogram is in.
    pub fn enclosing_scope(self) -> Option<Self> {
        if !matches!(self.kind(), MetadataKind::Subprogram | MetadataKind::LexicalBlock) {
            return None;
        }
        self.node_operands().get(1).copied().flatten().map(|it| self.unwrapped(it))
    }

    /// The entries of a list; empty ones are left out.
    pub fn entries(self) -> Vec<Self> {
        if self.kind() != MetadataKind::Tuple {
            return Vec::new();
        }
        self.node_operands().into_iter().flatten().map(|it| self.unwrapped(it)).collect()
    }

    /// The line a subprogram begins at.
    pub fn subprogram_line(self) -> Option<u32> {
        // SAFETY: the metadata is a subprogram.
        (self.kind() == MetadataKind::Subprogram)
            .then(|| unsafe { (self.module.functions_table().LLVMDISubprogramGetLine)(self.raw) })
    }

    /// A subprogram's linkage name, or its name if it has none.
    pub fn subprogram_name(self) -> Option<String> {
        if self.kind() != MetadataKind::Subprogram {
            return None;
        }
        let operands = self.node_operands();
        [3, 2].into_iter().find_map(|index| {
            let text = self.string_of(operands.get(index).copied().flatten()?)?;
            (!text.is_empty()).then_some(text)
        })
    }

    /// A file's path: its directory and its name, or its name if that is
    /// absolute.
    pub fn path(self) -> Option<String> {
        if self.kind() != MetadataKind::File {
            return None;
        }
        let functions = self.module.functions_table();
        let (mut directory_length, mut name_length) = (0, 0);
        // SAFETY: the metadata is a file; its strings live as long as it does.
        let (directory, name) = unsafe {
            let directory = (functions.LLVMDIFileGetDirectory)(self.raw, &mut directory_length);
            let name = (functions.LLVMDIFileGetFilename)(self.raw, &mut name_length);
            (
                String::from_utf8_lossy(text_at(directory, directory_length as usize)),
                String::from_utf8_lossy(text_at(name, name_length as usize)),
            )
        };
        Some(join(&directory, &name))
    }

    /// The operands of a node, as LLVM wraps them.
    fn node_operands(self) -> Vec<Option<ValueRef>> {
        let functions = self.module.functions_table();
        // SAFETY: the metadata is a node (callers check the kind); the list
        // has room for all operands, which LLVM writes.
        unsafe {
            let node = (functions.LLVMMetadataAsValue)(self.module.context.raw, self.raw);
            let count = (functions.LLVMGetMDNodeNumOperands)(node) as usize;
            let mut operands = vec![None; count];
            (functions.LLVMGetMDNodeOperands)(node, operands.as_mut_ptr());
            operands
        }
    }

    /// An operand as metadata again.
    fn unwrapped(self, operand: ValueRef) -> Self {
        // SAFETY: operands are metadata wrapped as values, or constants.
        let raw = unsafe { (self.module.functions_table().LLVMValueAsMetadata)(operand) };
        Self::new(raw, self.module)
    }

    fn string_of(self, value: ValueRef) -> Option<String> {
        let mut length = 0;
        // SAFETY: the value wraps metadata; LLVM returns null unless that is a
        // string, which then lives as long as the context.
        let text = unsafe {
            let start = (self.module.functions_table().LLVMGetMDString)(value, &mut length);
            if start.is_null() {
                return None;
            }
            text_at(start, length as usize)
        };
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() || Path::new(name).is_absolute() {
        return Cow::from(name).into_owned();
    }
    let name = name.strip_prefix("./").unwrap_or(name);
    if directory.ends_with('/') {
        format!("{directory}{name}")
    } else {
        format!("{directory}/{name}")
    }
}
