//! Records that were cut: what is missing is said, whatever is left.

mod profile_program;

use std::path::PathBuf;

use profile_program::{Program, Scheme};

const SOURCE: &str = "int main(int count, char **words) {\n\
                      int sum = 0;\n\
                      for (int i = 0; i < 5000; i++) sum += i % 3 ? count : 2;\n\
                      return sum == 0;\n}\n";

/// The file of the only process whose name begins so.
fn file(program: &Program, scheme: Scheme, prefix: &str) -> PathBuf {
    let folder = std::fs::read_dir(program.records(scheme)).unwrap().next().unwrap().unwrap();
    let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let is_it = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(prefix);
    files.into_iter().find(is_it).unwrap()
}

fn cut(path: &PathBuf, length: u64) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_len(length).unwrap();
}

fn incomplete(program: &Program, scheme: Scheme) -> String {
    program.recorded(scheme).incomplete.unwrap_or_else(|| "no".to_owned())
}

#[test]
fn counters_that_were_cut() {
    let program = Program::c(SOURCE, &["-O1"]);
    program.run(Scheme::Profile, &[]);
    assert_eq!(incomplete(&program, Scheme::Profile), "no");
    cut(&file(&program, Scheme::Profile, "counts-"), 5000);
    let why = incomplete(&program, Scheme::Profile);
    assert!(why.contains("counts-0-0 is missing") && why.contains("5000 bytes"), "{why}");
}

#[test]
fn a_log_that_was_cut() {
    let program = Program::c(SOURCE, &["-O0"]);
    program.run(Scheme::Log, &[]);
    assert_eq!(incomplete(&program, Scheme::Log), "no");
    cut(&file(&program, Scheme::Log, "thread-"), 5000);
    let why = incomplete(&program, Scheme::Log);
    assert!(why.contains("a thread's file was cut"), "{why}");
}

#[test]
fn a_process_whose_header_was_cut_is_missing_from_the_sum() {
    let program = Program::c(SOURCE, &["-O1"]);
    program.run(Scheme::Profile, &[]);
    cut(&file(&program, Scheme::Profile, "process"), 10);
    program.run(Scheme::Profile, &[]);
    let why = incomplete(&program, Scheme::Profile);
    assert!(why.contains("is missing") && why.contains("10 bytes"), "{why}");
}
