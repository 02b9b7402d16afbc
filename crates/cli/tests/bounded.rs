//! Files that say they are long, and memory that is bounded.

mod cc_project;

use std::fs::File;

use cc_project::Project;

const PROGRAM: &str = "int main(int argc, char **argv) { return argc > 3; }\n";

#[test]
fn holes_of_a_program_take_no_memory() {
    let project = Project::new(&[("p.c", PROGRAM)]);
    let script = "$CC -O1 -g p.c -o p && cp p long && truncate -s 3G long && truncate -s 3G none";
    project.run_ours(script).succeeded();
    let info = project.run_ours("ulimit -d 600000; backtrail info p").succeeded().text();
    let long = project.run_ours("ulimit -m 600000; backtrail info long").succeeded().text();
    assert!(info.contains("1 function") && long.contains("1 function"), "{long}");
    // It is not even read.
    let none = project.run_ours("ulimit -v 1000000; backtrail info none");
    let told = none.stderr.clone();
    assert_eq!(none.status, 3);
    assert!(told.contains("not an ELF file"), "{told}");
}

#[test]
fn a_process_that_cannot_be_read_does_not_hide_the_others() {
    let project = Project::new(&[("p.c", PROGRAM)]);
    for scheme in ["profile", "log"] {
        let script = format!(
            "test -e p || $CC -O1 -g p.c -o p; rm -rf rec; \
             backtrail -q instrument --scheme {scheme} -o p.v p && \
             export BACKTRAIL_DIR=rec && ./p.v && ./p.v && ./p.v"
        );
        project.run_ours(&script).succeeded();
        let mut processes: Vec<_> =
            std::fs::read_dir(project.ours("rec")).unwrap().map(|it| it.unwrap().path()).collect();
        processes.sort();
        // Nothing stands behind what the header says there is.
        let long = File::options().write(true).open(processes[0].join("process")).unwrap();
        long.set_len(200 << 30).unwrap();
        // This one says that there is more than there can be.
        let offset = std::mem::offset_of!(backtrail_abi::log::ProcessHeader, registrations);
        let wrong = File::options().write(true).open(processes[1].join("process")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&wrong, &[0xff; 4], offset as u64).unwrap();
        let name = processes[1].file_name().unwrap().to_str().unwrap();
        let pid = name.split('-').next().unwrap();
        let paths = project.run_ours("backtrail paths rec").succeeded();
        let (text, told) = (paths.text(), paths.stderr.clone());
        assert!(text.contains("2 processes"), "{text}");
        assert!(text.contains(&format!("incomplete  yes: process {pid} is missing")), "{text}");
        assert!(told.contains(name) && told.contains("is passed over"), "{told}");
        if scheme == "log" {
            let shown = project.run_ours("backtrail show rec --json").succeeded().text();
            let header: serde_json::Value =
                serde_json::from_str(shown.lines().next().unwrap()).unwrap();
            assert_eq!(header["processes"].as_array().unwrap().len(), 2);
            let why = header["incomplete"].as_str().unwrap();
            assert!(why.contains(&format!("process {pid} is missing")), "{why}");
        }
    }
}

#[test]
fn where_addresses_are_bounded_copies_run() {
    let project = Project::new(&[("p.c", PROGRAM)]);
    project.run_ours("$CC -O1 -g p.c -o p && backtrail profile --copies 2 -o a ./p").succeeded();
    // What is derived is in the cache: no compiler runs.
    let bounded = "ulimit -v 300000; backtrail profile --copies 2 -o b ./p";
    project.run_ours(bounded).succeeded();
    project.run_ours("ulimit -v 300000; backtrail trace -o t ./p").succeeded();
    project
        .run_ours("backtrail paths a > a.text && backtrail paths b > b.text && cmp a.text b.text")
        .succeeded();
}
