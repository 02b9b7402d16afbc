//! The types we give LLVM's C functions are those that others read off its headers.
//!
//! `llvm-sys` has each function of the C API with its type, for each version; it is
//! parsed, for the oldest and the newest version that we support, and nothing of it is
//! called. Types are compared as calls see them: numbers by their size, pointers by what
//! they point to. What may be null is not compared: headers do not say.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use syn::visit::{self, Visit};

/// Our name of a reference, and LLVM's, where they are not alike.
const RENAMED: [(&str, &str); 6] = [
    ("Block", "BasicBlock"),
    ("Buffer", "MemoryBuffer"),
    ("Diagnostic", "DiagnosticInfo"),
    ("PassOptions", "PassBuilderOptions"),
    ("DebugBuilder", "DIBuilder"),
    ("DebugRecord", "DbgRecord"),
];

/// The types of a function's arguments, and of its result.
type Signature = Vec<String>;

/// A type as a call sees it.
fn shape(ty: &syn::Type, theirs: &Theirs) -> String {
    match ty {
        syn::Type::Ptr(pointer) => format!("*{}", shape(&pointer.elem, theirs)),
        syn::Type::Path(path) => {
            let last = path.path.segments.last().expect("a path has a name");
            if last.ident == "Option" {
                let syn::PathArguments::AngleBracketed(of) = &last.arguments else {
                    panic!("an Option of nothing");
                };
                let Some(syn::GenericArgument::Type(of)) = of.args.first() else {
                    panic!("an Option of no type");
                };
                return shape(of, theirs);
            }
            named(&last.ident.to_string(), theirs)
        }
        syn::Type::BareFn(_) => "function".to_owned(),
        syn::Type::Tuple(tuple) if tuple.elems.is_empty() => "nothing".to_owned(),
        other => panic!("a type of another form: {other:?}"),
    }
}

fn named(name: &str, theirs: &Theirs) -> String {
    let number = |bytes: usize| format!("{bytes} bytes");
    match name {
        "c_char" | "i8" | "u8" => number(1),
        "c_int" | "c_uint" | "i32" | "u32" | "Bool" => number(4),
        "c_longlong" | "c_ulonglong" | "i64" | "u64" | "usize" | "size_t" => number(8),
        "c_void" => "anything".to_owned(),
        "DiagnosticHandler" | "FatalHandler" => "function".to_owned(),
        _ => {
            let llvm = name.strip_prefix("LLVM");
            if let Some(reference) = llvm.unwrap_or(name).strip_suffix("Ref") {
                let renamed = RENAMED.iter().find(|it| it.0 == reference && llvm.is_none());
                return format!("&{}", renamed.map_or(reference, |it| it.1));
            }
            match theirs.aliases.get(name) {
                Some(meant) => shape(meant, theirs),
                // Enumerations of C.
                None if theirs.enumerations.contains(&name.to_owned()) => number(4),
                None => panic!("{name} is no type that is known here"),
            }
        }
    }
}

/// What `llvm-sys` says.
#[derive(Default)]
struct Theirs {
    functions: BTreeMap<String, syn::Signature>,
    aliases: BTreeMap<String, syn::Type>,
    enumerations: Vec<String>,
}

impl<'ast> Visit<'ast> for Theirs {
    fn visit_foreign_item_fn(&mut self, function: &'ast syn::ForeignItemFn) {
        self.functions.insert(function.sig.ident.to_string(), function.sig.clone());
    }

    fn visit_item_type(&mut self, alias: &'ast syn::ItemType) {
        self.aliases.insert(alias.ident.to_string(), (*alias.ty).clone());
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.enumerations.push(item.ident.to_string());
        visit::visit_item_enum(self, item);
    }
}

impl Theirs {
    fn read(folder: &Path) -> Self {
        let mut found = Self::default();
        let mut pending = vec![folder.join("src")];
        while let Some(folder) = pending.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    pending.push(path);
                } else if path.extension().is_some_and(|it| it == "rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    found.visit_file(&syn::parse_file(&text).unwrap());
                }
            }
        }
        found
    }

    fn signature(&self, name: &str) -> Option<Signature> {
        let function = self.functions.get(name)?;
        let arguments = function.inputs.iter().map(|argument| match argument {
            syn::FnArg::Typed(argument) => shape(&argument.ty, self),
            syn::FnArg::Receiver(_) => panic!("{name} is a method"),
        });
        let result = match &function.output {
            syn::ReturnType::Default => "nothing".to_owned(),
            syn::ReturnType::Type(_, ty) => shape(ty, self),
        };
        Some(arguments.chain([result]).collect())
    }
}

/// Our functions: the lines within `functions! { … }`.
fn ours(theirs: &Theirs) -> BTreeMap<String, Signature> {
    let table = include_str!("../src/table.rs");
    let begin = table.find("\nfunctions! {").expect("the table is there") + "\nfunctions! {".len();
    let end = begin + table[begin..].find("\n}\n").expect("the table ends");
    let mut found = BTreeMap::new();
    for declaration in table[begin..end].split(';') {
        let lines = declaration.lines().filter(|line| !line.trim().starts_with("//"));
        let text: Vec<&str> = lines.map(str::trim).filter(|line| !line.is_empty()).collect();
        let text = text.join(" ");
        let Some(text) = text.strip_prefix("fn ") else {
            assert!(text.is_empty(), "no function: {text}");
            continue;
        };
        let (name, rest) = text.split_once('(').unwrap();
        let of: syn::TypeBareFn = syn::parse_str(&format!("fn({rest}")).unwrap();
        let result = match &of.output {
            syn::ReturnType::Default => "nothing".to_owned(),
            syn::ReturnType::Type(_, ty) => shape(ty, theirs),
        };
        let arguments = of.inputs.iter().map(|argument| shape(&argument.ty, theirs));
        found.insert(name.to_owned(), arguments.chain([result]).collect());
    }
    found
}

/// Where cargo has the sources of a version.
fn sources(version: &str) -> PathBuf {
    let cargo = std::env::var_os("CARGO").expect("cargo runs tests");
    let mut metadata = Command::new(cargo);
    metadata.args(["metadata", "--format-version", "1", "--offline", "--locked"]);
    // What other platforms need need not be here.
    metadata.args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
    let output = metadata.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = document["packages"].as_array().unwrap();
    let is_it = |it: &&serde_json::Value| {
        it["name"] == "llvm-sys" && it["version"].as_str().unwrap().starts_with(version)
    };
    let package = packages.iter().find(is_it).expect("it is among our dependencies");
    Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap().to_owned()
}

#[test]
fn functions_have_the_types_of_the_headers() {
    for version in ["191.", "221."] {
        let theirs = Theirs::read(&sources(version));
        let ours = ours(&theirs);
        assert!(ours.len() > 150, "{} functions of ours were found", ours.len());
        let mut wrong = Vec::new();
        for (name, signature) in &ours {
            match theirs.signature(name) {
                Some(wanted) if wanted == *signature => {}
                Some(wanted) => wrong.push(format!("{name}: {signature:?}, and not {wanted:?}")),
                None => wrong.push(format!("{name} is not in llvm-sys {version}")),
            }
        }
        assert!(wrong.is_empty(), "llvm-sys {version}:\n{}", wrong.join("\n"));
    }
}
