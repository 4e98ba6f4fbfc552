//! The program that forwards: what a router does to a frame, and no more.

use std::os::fd::AsFd;

use wavebed_os::bpf::{Instruction, Map, Program, ProgramKind};

use super::assembler::Register::{R0, R1, R2, R3};
use super::assembler::{Assembler, Helper, Label, Operation, Test, Width};
use super::count::{DROP, PASS};
use super::in_frame;

/// Where frames of one direction go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The interface's index.
    pub interface: u32,
    /// Its address: the source of what it sends.
    pub mac: [u8; 6],
    /// The next hop.
    pub next_mac: [u8; 6],
}

/// Loads the program that forwards to `way`.
///
/// # Errors
/// The kernel's refusal.
pub fn load(way: &Way) -> wavebed_os::Result<Program> {
    let interfaces = Map::interfaces("interfaces", 1)?;
    interfaces.set(0, &way.interface.to_ne_bytes())?;
    Program::load("wb_forward", ProgramKind::Xdp, &write(way, &interfaces))
}

/// `R1` is the frame, `R2` its end.
fn write(way: &Way, interfaces: &Map) -> Vec<Instruction> {
    let mut program = Assembler::new();
    let (v6, addresses) = (program.label(), program.label());
    let (pass, drop) = (program.label(), program.label());
    program
        .load(Width::Word, R2, R1, 4)
        .load(Width::Word, R1, R1, 0);
    expect_length(&mut program, 14 + 20, pass);
    program
        // To a group: ARP, neighbour discovery, what bridges and routers tell each other.
        .load(Width::Byte, R3, R1, 0)
        .jump_if(R3, Test::AnyBit, 1, pass)
        .load(Width::Half, R3, R1, 12)
        .jump_if(R3, Test::Equal, in_frame(0x86dd), v6)
        .jump_if(R3, Test::NotEqual, in_frame(0x0800), pass);
    take_hop(&mut program, 22, drop);
    correct_checksum(&mut program);
    program.jump(addresses).place(v6);
    expect_length(&mut program, 14 + 40, pass);
    pass_neighbour_discovery(&mut program, pass);
    take_hop(&mut program, 21, drop);
    program.place(addresses);
    write_addresses(&mut program, way);
    program
        .set_map(R1, interfaces.as_fd())
        .set(R2, 0)
        // What to answer if the interface is gone.
        .set(R3, DROP)
        .call(Helper::Redirect)
        .exit()
        .place(pass)
        .set(R0, PASS)
        .exit()
        .place(drop)
        .set(R0, DROP)
        .exit();
    program.finish()
}

fn expect_length(program: &mut Assembler, bytes: i32, otherwise: Label) {
    program
        .set(R3, R1)
        .add(R3, bytes)
        .jump_if(R3, Test::Greater, R2, otherwise);
}

/// Takes one from the TTL or hop limit at byte `at`.
fn take_hop(program: &mut Assembler, at: i16, spent: Label) {
    program
        .load(Width::Byte, R3, R1, at)
        .jump_if(R3, Test::AtMost, 1, spent)
        .add(R3, -1)
        .store(Width::Byte, R1, at, R3);
}

/// The TTL is the high half of its word: the word has become less by 0x100, and so, in ones' complement, the checksum is more
/// by it (RFC 1624, equation 3).
fn correct_checksum(program: &mut Assembler) {
    let done = program.label();
    program
        .load(Width::Half, R3, R1, 24)
        .big_endian(R3, 16)
        .add(R3, 0x100)
        .jump_if(R3, Test::Less, 0xffff, done)
        .alu(Operation::Subtract, R3, 0xffff)
        .place(done)
        .big_endian(R3, 16)
        .store(Width::Half, R1, 24, R3);
}

/// ICMPv6 with a hop limit of 255 is neighbour discovery (RFC 4861, section 7.1): the kernel's.
fn pass_neighbour_discovery(program: &mut Assembler, pass: Label) {
    let other = program.label();
    program
        .load(Width::Byte, R3, R1, 20)
        .jump_if(R3, Test::NotEqual, 58, other)
        .load(Width::Byte, R3, R1, 21)
        .jump_if(R3, Test::Equal, 255, pass)
        .place(other);
}

fn write_addresses(program: &mut Assembler, way: &Way) {
    let mut bytes = [0; 12];
    bytes[..6].copy_from_slice(&way.next_mac);
    bytes[6..].copy_from_slice(&way.mac);
    for (at, part) in bytes.chunks_exact(4).enumerate() {
        let word = i32::from_ne_bytes(part.try_into().expect("four bytes"));
        let at = i16::try_from(at * 4).expect("twelve");
        program.store_number(Width::Word, R1, at, word);
    }
}
