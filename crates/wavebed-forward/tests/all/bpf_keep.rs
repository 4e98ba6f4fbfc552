//! A program that is kept runs again at once. Root is needed.

use std::time::{Duration, Instant};

use wavebed_forward::bpf::assembler::Assembler;
use wavebed_forward::bpf::assembler::Register::R0;
use wavebed_forward::bpf::count::DROP;
use wavebed_forward::bpf::keep::Keep;
use wavebed_os::bpf::{Program, ProgramKind};

/// The shortest of several runs, so that other work on the machine does not count.
fn shortest_run(program: &Program) -> Duration {
    let time = || {
        let begin = Instant::now();
        program.run_live(&[0; 60], 2, 2).expect("run");
        begin.elapsed()
    };
    (0..10).map(|_| time()).min().expect("ten")
}

#[test]
fn a_kept_program_does_not_wait_for_all_processors_before_and_after_each_run() {
    let mut program = Assembler::new();
    program.set(R0, DROP).exit();
    let program =
        Program::load("drop", ProgramKind::XdpLive, &program.finish()).expect("root is needed");
    let alone = shortest_run(&program);
    let keep = Keep::new().expect("a place");
    keep.put(&program).expect("kept");
    let kept = shortest_run(&program);
    assert!(kept < alone / 2, "{kept:?} {alone:?}");
}
