//! The bucket of a value (see [`crate::histogram`]), in BPF.

use super::assembler::{Assembler, Operation, Register, Test};
use crate::histogram::{BUCKETS, TOP_BIT};

/// Puts the bucket of `value` into `value`. `shift` is overwritten.
///
/// There is no instruction that finds the highest bit: five comparisons find how far the value must be shifted to be
/// below 128, as the digits of a binary number.
///
/// # Panics
/// Never: buckets are few.
pub fn bucket(program: &mut Assembler, value: Register, shift: Register) {
    let (fits, end) = (program.label(), program.label());
    program
        .set(shift, value)
        .alu(Operation::ShiftRight, shift, small(TOP_BIT as usize))
        .jump_if(shift, Test::Equal, 0, fits)
        .set(value, small(BUCKETS - 1))
        .jump(end)
        .place(fits)
        .set(shift, 0);
    for digit in [16, 8, 4, 2, 1] {
        let less = program.label();
        // A value that must be shifted by at least `digit` has its highest bit at 6 + `digit` or above.
        program
            .jump_if(value, Test::Less, 1 << (6 + digit), less)
            .alu(Operation::ShiftRight, value, digit)
            .add(shift, digit)
            .place(less);
    }
    // Half a power of two has 64 buckets.
    program
        .alu(Operation::ShiftLeft, shift, 6)
        .add(value, shift)
        .place(end);
}

fn small(number: usize) -> i32 {
    i32::try_from(number).expect("a small number")
}
