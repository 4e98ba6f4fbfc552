//! An assembler for BPF (RFC 9669): as much of the instruction set as our programs use.
//!
//! The verifier judges the outcome; here only what cannot be encoded is refused, by a panic, since it is a fault of the
//! program's author.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::Instruction;

/// A register. `R0` is an answer, `R1` to `R5` are arguments and are lost in calls, `R6` to `R9` are kept, and `R10` is the
/// end of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "names say it all")]
pub enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// How much is loaded or stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// One byte.
    Byte = 0x10,
    /// Two bytes.
    Half = 0x08,
    /// Four bytes.
    Word = 0x00,
    /// Eight bytes.
    Double = 0x18,
}

/// What is done to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "names say it all")]
pub enum Operation {
    Add = 0x00,
    Subtract = 0x10,
    Multiply = 0x20,
    Or = 0x40,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Modulo = 0x90,
    Xor = 0xa0,
    Move = 0xb0,
    SignedShiftRight = 0xc0,
}

/// What a jump depends on; numbers have no sign but where it is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "names say it all")]
pub enum Test {
    Equal = 0x10,
    Greater = 0x20,
    AtLeast = 0x30,
    /// The two have a bit in common.
    AnyBit = 0x40,
    NotEqual = 0x50,
    Less = 0xa0,
    AtMost = 0xb0,
    /// Less, where both have a sign.
    SignedLess = 0xc0,
}

/// Functions of the kernel (`bpf-helpers(7)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Helper {
    /// `bpf_ktime_get_ns()`: the monotonic clock.
    Time = 5,
    /// `bpf_get_smp_processor_id()`
    Processor = 8,
    /// `bpf_setsockopt(context, level, name, value, bytes)`
    SetSocketOption = 49,
    /// `bpf_redirect_map(map, index, flags)`
    Redirect = 51,
    /// `bpf_getsockopt(context, level, name, value, bytes)`
    SocketOption = 57,
    /// `bpf_sock_ops_cb_flags_set(context, flags)`: events of a socket that run the program.
    SetSocketEvents = 59,
    /// `bpf_xdp_adjust_tail(context, difference)`
    AdjustTail = 65,
    /// `bpf_get_ns_current_pid_tgid(device, inode, into, 8)`: the thread and the process in a PID namespace.
    ThreadInNamespace = 120,
    /// `bpf_get_netns_cookie(context)`: the number of a socket's network namespace.
    NetworkCookie = 122,
    /// `bpf_xdp_get_buff_len(context)`: bytes of a frame in all its pieces.
    Length = 188,
    /// `bpf_xdp_load_bytes(context, offset, into, length)`
    LoadBytes = 189,
}

/// A register or a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// What is in the register.
    Register(Register),
    /// The number, with its sign.
    Number(i32),
}

impl From<Register> for Operand {
    fn from(register: Register) -> Self {
        Self::Register(register)
    }
}

impl From<i32> for Operand {
    fn from(number: i32) -> Self {
        Self::Number(number)
    }
}

/// A place in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

const CLASS_LOAD: u8 = 0x01;
const CLASS_STORE_NUMBER: u8 = 0x02;
const CLASS_STORE: u8 = 0x03;
const CLASS_ALU32: u8 = 0x04;
const CLASS_JUMP: u8 = 0x05;
const CLASS_JUMP32: u8 = 0x06;
const CLASS_ALU64: u8 = 0x07;
const MODE_MEMORY: u8 = 0x60;
const MODE_ATOMIC: u8 = 0xc0;
const FROM_REGISTER: u8 = 0x08;
const LOAD_64: u8 = 0x18;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const TO_BIG_ENDIAN: u8 = 0xdc;
const ATOMIC_ADD: i32 = 0x00;
const ATOMIC_FETCH: i32 = 0x01;
const ATOMIC_EXCHANGE: i32 = 0xe1;
/// What the source register of a 64-bit load means: the number as it is, a map, a place in a map's only value.
const PLAIN: u8 = 0;
const MAP: u8 = 1;
const MAP_VALUE: u8 = 2;

/// A program that is being written.
#[derive(Clone, Debug, Default)]
pub struct Assembler {
    code: Vec<Instruction>,
    places: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// An empty program.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A name for a place that is not known yet.
    pub fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    /// The label's place is here.
    ///
    /// # Panics
    /// If it has a place already.
    pub fn place(&mut self, label: Label) -> &mut Self {
        let before = self.places[label.0].replace(self.code.len());
        assert!(before.is_none(), "a label has one place");
        self
    }

    /// `to = to operation operand`, 64 bits; with [`Operation::Move`] `to = operand`.
    pub fn alu(
        &mut self,
        operation: Operation,
        to: Register,
        operand: impl Into<Operand>,
    ) -> &mut Self {
        self.operate(CLASS_ALU64 | operation as u8, to, operand.into(), 0)
    }

    /// The same with 32 bits; the high half of `to` becomes zero.
    pub fn alu32(
        &mut self,
        operation: Operation,
        to: Register,
        operand: impl Into<Operand>,
    ) -> &mut Self {
        self.operate(CLASS_ALU32 | operation as u8, to, operand.into(), 0)
    }

    /// `to = operand`
    pub fn set(&mut self, to: Register, operand: impl Into<Operand>) -> &mut Self {
        self.alu(Operation::Move, to, operand)
    }

    /// `to += operand`
    pub fn add(&mut self, to: Register, operand: impl Into<Operand>) -> &mut Self {
        self.alu(Operation::Add, to, operand)
    }

    /// `to` = a number of 64 bits.
    pub fn set64(&mut self, to: Register, number: u64) -> &mut Self {
        self.load64(PLAIN, to, low(number), low(number >> 32))
    }

    /// `to` = a map, as an argument of a call.
    pub fn set_map(&mut self, to: Register, map: BorrowedFd<'_>) -> &mut Self {
        self.load64(MAP, to, map.as_raw_fd(), 0)
    }

    /// `to` = the address of byte `offset` of the only value of an array.
    ///
    /// # Panics
    /// If the offset needs more than 31 bits.
    pub fn set_address(&mut self, to: Register, map: BorrowedFd<'_>, offset: usize) -> &mut Self {
        let offset = i32::try_from(offset).expect("an offset in a map");
        self.load64(MAP_VALUE, to, map.as_raw_fd(), offset)
    }

    /// `to = memory[from + offset]`
    pub fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) -> &mut Self {
        let code = CLASS_LOAD | MODE_MEMORY | width as u8;
        self.push(code, to, from as u8, offset, 0)
    }

    /// `memory[to + offset] = from`
    pub fn store(&mut self, width: Width, to: Register, offset: i16, from: Register) -> &mut Self {
        let code = CLASS_STORE | MODE_MEMORY | width as u8;
        self.push(code, to, from as u8, offset, 0)
    }

    /// `memory[to + offset] = number`
    pub fn store_number(
        &mut self,
        width: Width,
        to: Register,
        offset: i16,
        number: i32,
    ) -> &mut Self {
        let code = CLASS_STORE_NUMBER | MODE_MEMORY | width as u8;
        self.push(code, to, 0, offset, number)
    }

    /// `memory[to + offset] += value`, in one step, and `value` = what was there. Words and doubles only.
    pub fn fetch_add(
        &mut self,
        width: Width,
        to: Register,
        offset: i16,
        value: Register,
    ) -> &mut Self {
        self.atomic(width, to, offset, value, ATOMIC_ADD | ATOMIC_FETCH)
    }

    /// `memory[to + offset] += value`, in one step. Words and doubles only.
    pub fn atomic_add(
        &mut self,
        width: Width,
        to: Register,
        offset: i16,
        value: Register,
    ) -> &mut Self {
        self.atomic(width, to, offset, value, ATOMIC_ADD)
    }

    /// `memory[to + offset]` and `value` change places, in one step. Words and doubles only.
    pub fn exchange(
        &mut self,
        width: Width,
        to: Register,
        offset: i16,
        value: Register,
    ) -> &mut Self {
        self.atomic(width, to, offset, value, ATOMIC_EXCHANGE)
    }

    /// Turns the lowest `bits` (16, 32 or 64) of `to` from the machine's order to big-endian, or back, and clears the rest.
    pub fn big_endian(&mut self, to: Register, bits: i32) -> &mut Self {
        self.push(TO_BIG_ENDIAN, to, 0, 0, bits)
    }

    /// Goes on at `label`.
    pub fn jump(&mut self, label: Label) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        self.push(CLASS_JUMP, Register::R0, 0, 0, 0)
    }

    /// Goes on at `label` if `left test right`, 64 bits.
    pub fn jump_if(
        &mut self,
        left: Register,
        test: Test,
        right: impl Into<Operand>,
        label: Label,
    ) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        self.operate(CLASS_JUMP | test as u8, left, right.into(), 0)
    }

    /// The same with the low 32 bits of both.
    pub fn jump32_if(
        &mut self,
        left: Register,
        test: Test,
        right: impl Into<Operand>,
        label: Label,
    ) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        self.operate(CLASS_JUMP32 | test as u8, left, right.into(), 0)
    }

    /// Calls a function of the kernel.
    pub fn call(&mut self, helper: Helper) -> &mut Self {
        self.push(CALL, Register::R0, 0, 0, helper as i32)
    }

    /// Ends with `R0`.
    pub fn exit(&mut self) -> &mut Self {
        self.push(EXIT, Register::R0, 0, 0, 0)
    }

    /// The finished program.
    ///
    /// # Panics
    /// If a label that is jumped to has no place, or lies too far away.
    #[must_use]
    pub fn finish(mut self) -> Vec<Instruction> {
        for (from, label) in self.jumps {
            let to = self.places[label.0].expect("a label that is jumped to has a place");
            let distance =
                isize::try_from(to).expect("short") - isize::try_from(from).expect("short");
            self.code[from].offset = i16::try_from(distance - 1).expect("a jump within reach");
        }
        self.code
    }

    fn operate(&mut self, code: u8, to: Register, operand: Operand, offset: i16) -> &mut Self {
        match operand {
            Operand::Register(from) => self.push(code | FROM_REGISTER, to, from as u8, offset, 0),
            Operand::Number(number) => self.push(code, to, 0, offset, number),
        }
    }

    fn atomic(
        &mut self,
        width: Width,
        to: Register,
        offset: i16,
        value: Register,
        operation: i32,
    ) -> &mut Self {
        assert!(
            matches!(width, Width::Word | Width::Double),
            "atomic operations are on words and doubles"
        );
        let code = CLASS_STORE | MODE_ATOMIC | width as u8;
        self.push(code, to, value as u8, offset, operation)
    }

    fn load64(&mut self, meaning: u8, to: Register, low: i32, high: i32) -> &mut Self {
        self.push(LOAD_64, to, meaning, 0, low);
        self.push(0, Register::R0, 0, 0, high)
    }

    fn push(&mut self, code: u8, to: Register, from: u8, offset: i16, immediate: i32) -> &mut Self {
        self.code.push(Instruction {
            code,
            registers: from << 4 | to as u8,
            offset,
            immediate,
        });
        self
    }
}

/// The low 32 bits, as an immediate value.
fn low(number: u64) -> i32 {
    let [a, b, c, d, ..] = number.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::Register::{R0, R1, R2, R3, R10};
    use super::*;

    /// The program's bytes on a little-endian machine, as RFC 9669 lays them out: code, registers, offset, immediate.
    fn encoded(write: impl FnOnce(&mut Assembler)) -> Vec<[u8; 8]> {
        let mut program = Assembler::new();
        write(&mut program);
        program
            .finish()
            .iter()
            .map(|one| {
                let mut bytes = [one.code, one.registers, 0, 0, 0, 0, 0, 0];
                bytes[2..4].copy_from_slice(&one.offset.to_le_bytes());
                bytes[4..].copy_from_slice(&one.immediate.to_le_bytes());
                bytes
            })
            .collect()
    }

    #[test]
    fn arithmetic_is_encoded_with_numbers_and_registers() {
        let code = encoded(|a| {
            a.set(R0, 2).set(R1, R2).add(R3, -1);
            a.alu(Operation::ShiftRight, R2, 6)
                .alu32(Operation::And, R1, R3)
                .alu(Operation::Modulo, R1, 256);
        });
        assert_eq!(
            code,
            [
                [0xb7, 0x00, 0, 0, 2, 0, 0, 0],
                [0xbf, 0x21, 0, 0, 0, 0, 0, 0],
                [0x07, 0x03, 0, 0, 0xff, 0xff, 0xff, 0xff],
                [0x77, 0x02, 0, 0, 6, 0, 0, 0],
                [0x5c, 0x31, 0, 0, 0, 0, 0, 0],
                [0x97, 0x01, 0, 0, 0, 1, 0, 0],
            ]
        );
    }

    #[test]
    fn memory_is_read_and_written_in_four_widths() {
        let code = encoded(|a| {
            a.load(Width::Word, R2, R1, 4)
                .load(Width::Byte, R2, R1, 0)
                .load(Width::Half, R3, R1, 12)
                .load(Width::Double, R3, R10, -8)
                .store(Width::Double, R10, -16, R1)
                .store_number(Width::Half, R1, 2, 7);
        });
        assert_eq!(
            code,
            [
                [0x61, 0x12, 4, 0, 0, 0, 0, 0],
                [0x71, 0x12, 0, 0, 0, 0, 0, 0],
                [0x69, 0x13, 12, 0, 0, 0, 0, 0],
                [0x79, 0xa3, 0xf8, 0xff, 0, 0, 0, 0],
                [0x7b, 0x1a, 0xf0, 0xff, 0, 0, 0, 0],
                [0x6a, 0x01, 2, 0, 7, 0, 0, 0],
            ]
        );
    }

    #[test]
    fn atomic_operations_carry_theirs_in_the_immediate() {
        let code = encoded(|a| {
            a.atomic_add(Width::Double, R1, 8, R2)
                .fetch_add(Width::Word, R1, 0, R2)
                .exchange(Width::Double, R1, 0, R3);
        });
        assert_eq!(
            code,
            [
                [0xdb, 0x21, 8, 0, 0, 0, 0, 0],
                [0xc3, 0x21, 0, 0, 1, 0, 0, 0],
                [0xdb, 0x31, 0, 0, 0xe1, 0, 0, 0],
            ]
        );
    }

    #[test]
    fn a_number_of_64_bits_takes_two_places() {
        let code = encoded(|a| {
            a.set64(R1, 0x1122_3344_5566_7788);
        });
        assert_eq!(
            code,
            [
                [0x18, 0x01, 0, 0, 0x88, 0x77, 0x66, 0x55],
                [0, 0, 0, 0, 0x44, 0x33, 0x22, 0x11],
            ]
        );
    }

    #[test]
    fn maps_are_named_by_their_descriptor() {
        let file = std::fs::File::open("/dev/null").expect("a descriptor");
        let fd = u8::try_from(file.as_raw_fd()).expect("a small number");
        let code = encoded(|a| {
            a.set_map(R1, file.as_fd())
                .set_address(R2, file.as_fd(), 24);
        });
        assert_eq!(code[0], [0x18, 0x11, 0, 0, fd, 0, 0, 0]);
        assert_eq!(code[1], [0; 8]);
        assert_eq!(code[2], [0x18, 0x22, 0, 0, fd, 0, 0, 0]);
        assert_eq!(code[3], [0, 0, 0, 0, 24, 0, 0, 0]);
    }

    #[test]
    fn jumps_count_from_the_next_instruction_and_over_both_halves() {
        let code = encoded(|a| {
            let (start, end) = (a.label(), a.label());
            a.place(start)
                .jump_if(R1, Test::Greater, R2, end)
                .set64(R0, 1)
                .jump32_if(R1, Test::NotEqual, 5, start)
                .jump(end)
                .call(Helper::Time)
                .place(end)
                .exit();
        });
        assert_eq!(
            code,
            [
                [0x2d, 0x21, 5, 0, 0, 0, 0, 0],
                [0x18, 0x00, 0, 0, 1, 0, 0, 0],
                [0, 0, 0, 0, 0, 0, 0, 0],
                [0x56, 0x01, 0xfc, 0xff, 5, 0, 0, 0],
                [0x05, 0x00, 1, 0, 0, 0, 0, 0],
                [0x85, 0x00, 0, 0, 5, 0, 0, 0],
                [0x95, 0x00, 0, 0, 0, 0, 0, 0],
            ]
        );
    }

    #[test]
    fn the_order_of_bytes_is_turned_with_its_width() {
        let code = encoded(|a| {
            a.big_endian(R2, 16);
        });
        assert_eq!(code, [[0xdc, 0x02, 0, 0, 16, 0, 0, 0]]);
    }

    #[test]
    #[should_panic(expected = "has a place")]
    fn a_jump_to_nowhere_is_refused() {
        encoded(|a| {
            let label = a.label();
            a.jump(label);
        });
    }
}
