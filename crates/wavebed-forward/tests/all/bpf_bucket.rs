//! The histogram's bucket as the kernel computes it. Root is needed.

use proptest::prelude::*;
use wavebed_forward::bpf::assembler::Register::{R0, R1, R2, R3, R4};
use wavebed_forward::bpf::assembler::{Assembler, Test, Width};
use wavebed_forward::bpf::bucket::bucket;
use wavebed_forward::histogram;
use wavebed_os::bpf::{Program, ProgramKind};

/// A program that answers with the bucket of the first eight bytes of a frame.
fn program() -> Program {
    let mut program = Assembler::new();
    let short = program.label();
    program
        .load(Width::Word, R2, R1, 0)
        .load(Width::Word, R3, R1, 4)
        .set(R0, -1)
        .set(R4, R2)
        .add(R4, 8)
        .jump_if(R4, Test::Greater, R3, short)
        .load(Width::Double, R0, R2, 0);
    bucket(&mut program, R0, R3);
    program.place(short).exit();
    Program::load("bucket", ProgramKind::Xdp, &program.finish()).expect("root is needed")
}

fn of_kernel(program: &Program, value: u64) -> usize {
    let mut frame = [0; 64];
    frame[..8].copy_from_slice(&value.to_ne_bytes());
    program.run_once(&frame).expect("run") as usize
}

#[test]
fn the_edges_of_all_buckets_are_where_they_are_in_user_space() {
    let program = program();
    for bit in 0..64 {
        for part in [0, 1, 63, 64, 127] {
            let value = (1_u64 << bit) | (part << bit >> 7);
            for near in [value.wrapping_sub(1), value, value.wrapping_add(1)] {
                assert_eq!(of_kernel(&program, near), histogram::bucket(near), "{near}");
            }
        }
    }
    assert_eq!(of_kernel(&program, u64::MAX), histogram::BUCKETS - 1);
}

#[test]
fn any_value_has_the_bucket_that_it_has_in_user_space() {
    let program = program();
    proptest!(ProptestConfig::with_cases(2000), |(value: u64, shift in 0..64_u32)| {
        let value = value >> shift;
        prop_assert_eq!(of_kernel(&program, value), histogram::bucket(value));
    });
}
