//! The BPF program: the first timeout of a connection request, and the window that its repetitions would cost.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;

use wavebed_os::bpf::assembler::{Assembler, Helper, Operation, Register, Test, Width};
use wavebed_os::bpf::{Instruction, Link, Program, ProgramKind, SharedMemory};
use wavebed_os::error::Result;

use Register::{R0, R1, R2, R3, R4, R5, R6, R7, R10};

// struct bpf_sock_ops, byte offsets.
const OPERATION: i16 = 0;
const REPLY: i16 = 4;
const ARGUMENT: i16 = 4;
const IS_FULL_SOCKET: i16 = 72;
const CONGESTION_WINDOW: i16 = 76;
const EVENTS: i16 = 84;
const TOTAL_RETRANSMISSIONS: i16 = 136;
// BPF_SOCK_OPS_TIMEOUT_INIT, _TCP_CONNECT_CB, _ACTIVE_ESTABLISHED_CB, _RTO_CB.
const FIRST_TIMEOUT: i32 = 1;
const CONNECT: i32 = 3;
const ESTABLISHED: i32 = 4;
const TIMEOUT: i32 = 8;
/// `BPF_SOCK_OPS_RTO_CB_FLAG`: timeouts run the program. It marks connections whose timeout is limited.
const TIMEOUT_EVENT: i32 = 1;
/// `SOL_TCP`
const LEVEL_TCP: i32 = 6;
/// `TCP_SYNCNT`
const SYN_RETRIES: i32 = 7;
/// `TCP_RTO_MAX_MS`
const LONGEST_TIMEOUT: i32 = 44;
/// `TCP_BPF_IW`
const INITIAL_WINDOW: i32 = 1001;
/// The initial window of RFC 6928 and of Linux (`TCP_INIT_CWND`), segments.
const WINDOW_SEGMENTS: i32 = 10;
/// The verdict of every program in a control group: continue.
const CONTINUE: i32 = 1;
/// Where the value of a socket option stands, from the end of the stack.
const VALUE: i16 = -4;

/// What the program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Network namespace of the connections, by its cookie.
    pub network: u64,
    /// The first timeout, ticks.
    pub ticks: u32,
    /// Whether it is also the first timeout of answers to connection requests (SYN-ACK).
    pub answers: bool,
    /// Up to this many retries leave the initial window as it is. The kernel itself reduces it to one segment after two
    /// retries (RFC 5681, 3.1, allows none), which are 3 s of outage without the program and 0.2 s with it.
    pub harmless_retries: u32,
    /// Retries that each connection request gets in addition (`TCP_SYNCNT`).
    pub more_retries: u32,
    /// Limit of the timeout.
    pub limit: Option<Limit>,
}

/// A limit of the timeout while it doubles (`TCP_RTO_MAX_MS`, Linux 6.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The limit, milliseconds; the kernel takes no less than 1000.
    pub ms: u32,
    /// The limit of this network namespace, which holds afterwards; sockets with another one keep theirs.
    pub normal_ms: u32,
    /// The last retry before which the limit holds.
    pub retry: u32,
}

/// Counters of the program, in this order in its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Connections that got the early timeout.
    pub connections: u64,
    /// Answers to connection requests that got it.
    pub answers: u64,
    /// Connections that came about after a retry.
    pub retried: u64,
    /// Retried connections whose initial window was put back.
    pub windows_kept: u64,
    /// Connections whose timeout was limited.
    pub limited: u64,
}

const WORDS: usize = 5;
const BYTES_OF_WORD: usize = 8;

/// The program, attached until this is dropped.
#[derive(Debug)]
pub struct Early {
    _link: Link,
    counters: SharedMemory,
}

impl Early {
    /// Loads the program and attaches it to a control group.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn attach(settings: &Settings, group: BorrowedFd<'_>) -> Result<Self> {
        let counters = SharedMemory::new("syn_counters", WORDS)?;
        let code = instructions(settings, counters.as_fd());
        let program = Program::load("early_syn", ProgramKind::SocketOperations, &code)?;
        Ok(Self {
            _link: Link::attach_socket_operations(&program, group)?,
            counters,
        })
    }

    /// The counters now.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let words = self.counters.words();
        let at = |number: usize| {
            words
                .get(number)
                .map_or(0, |word| word.load(Ordering::Relaxed))
        };
        Counters {
            connections: at(0),
            answers: at(1),
            retried: at(2),
            windows_kept: at(3),
            limited: at(4),
        }
    }
}

fn instructions(settings: &Settings, counters: BorrowedFd<'_>) -> Vec<Instruction> {
    let mut program = Assembler::new();
    let (ours, end) = (program.label(), program.label());
    let parts = [FIRST_TIMEOUT, CONNECT, ESTABLISHED, TIMEOUT].map(|one| (one, program.label()));
    program.set(R6, R1).load(Width::Word, R7, R6, OPERATION);
    for (operation, _) in parts {
        program.jump_if(R7, Test::Equal, operation, ours);
    }
    program
        .jump(end)
        .place(ours)
        .set(R1, R6)
        .call(Helper::NetworkCookie)
        .set64(R2, settings.network)
        .jump_if(R0, Test::NotEqual, R2, end);
    for (operation, part) in parts {
        program.jump_if(R7, Test::Equal, operation, part);
    }
    for (operation, part) in parts {
        program.jump(end).place(part);
        match operation {
            FIRST_TIMEOUT => first_timeout(&mut program, settings, counters),
            CONNECT => connect(&mut program, settings, counters),
            ESTABLISHED => established(&mut program, settings, counters),
            _ => timeout(&mut program, settings),
        }
    }
    program.place(end).set(R0, CONTINUE).exit();
    program.finish()
}

/// Replies the timeout, which the kernel asks for at each retry. An answer (SYN-ACK) is sent by no full socket.
fn first_timeout(program: &mut Assembler, settings: &Settings, counters: BorrowedFd<'_>) {
    let (store, over) = (program.label(), program.label());
    program
        .load(Width::Word, R2, R6, IS_FULL_SOCKET)
        .jump_if(R2, Test::NotEqual, 0, store);
    if settings.answers {
        count(program, counters, 1);
    } else {
        program.jump(over);
    }
    program
        .place(store)
        .set(R2, small(settings.ticks))
        .store(Width::Word, R6, REPLY, R2)
        .place(over);
}

/// A connection request gets more retries, and a limit of its timeout.
fn connect(program: &mut Assembler, settings: &Settings, counters: BorrowedFd<'_>) {
    let (limit, over) = (program.label(), program.label());
    count(program, counters, 0);
    option(program, Helper::SocketOption, SYN_RETRIES);
    program
        .jump_if(R0, Test::NotEqual, 0, limit)
        .load(Width::Word, R2, R10, VALUE)
        .add(R2, small(settings.more_retries))
        .store(Width::Word, R10, VALUE, R2);
    // More than 127 are refused; the socket then keeps its own number.
    option(program, Helper::SetSocketOption, SYN_RETRIES);
    program.place(limit);
    if let Some(limit) = settings.limit {
        option(program, Helper::SocketOption, LONGEST_TIMEOUT);
        program
            .jump_if(R0, Test::NotEqual, 0, over)
            .load(Width::Word, R2, R10, VALUE)
            .jump_if(R2, Test::NotEqual, small(limit.normal_ms), over)
            .store_number(Width::Word, R10, VALUE, small(limit.ms));
        option(program, Helper::SetSocketOption, LONGEST_TIMEOUT);
        program
            .jump_if(R0, Test::NotEqual, 0, over)
            .load(Width::Word, R2, R6, EVENTS)
            .alu(Operation::Or, R2, TIMEOUT_EVENT)
            .set(R1, R6)
            .call(Helper::SetSocketEvents);
        count(program, counters, 4);
    }
    program.place(over);
}

/// After its last retry the limit ends.
fn timeout(program: &mut Assembler, settings: &Settings) {
    let over = program.label();
    if let Some(limit) = settings.limit {
        program.load(Width::Word, R2, R6, ARGUMENT).jump_if(
            R2,
            Test::Less,
            small(limit.retry),
            over,
        );
        end_limit(program, limit);
    }
    program.place(over);
}

/// The socket's timeout has the usual limit again.
fn end_limit(program: &mut Assembler, limit: Limit) {
    let over = program.label();
    program
        .load(Width::Word, R7, R6, EVENTS)
        .set(R2, R7)
        .alu(Operation::And, R2, TIMEOUT_EVENT)
        .jump_if(R2, Test::Equal, 0, over)
        .store_number(Width::Word, R10, VALUE, small(limit.normal_ms));
    option(program, Helper::SetSocketOption, LONGEST_TIMEOUT);
    program
        .set(R1, R6)
        .set(R2, R7)
        .alu(Operation::And, R2, !TIMEOUT_EVENT)
        .call(Helper::SetSocketEvents)
        .place(over);
}

/// A connection that came about after few retries gets the initial window that it would have had without the program.
fn established(program: &mut Assembler, settings: &Settings, counters: BorrowedFd<'_>) {
    let over = program.label();
    if let Some(limit) = settings.limit {
        end_limit(program, limit);
    }
    program
        .load(Width::Word, R2, R6, TOTAL_RETRANSMISSIONS)
        .jump_if(R2, Test::Equal, 0, over);
    count(program, counters, 2);
    program
        .load(Width::Word, R2, R6, TOTAL_RETRANSMISSIONS)
        .jump_if(R2, Test::Greater, small(settings.harmless_retries), over)
        .load(Width::Word, R2, R6, CONGESTION_WINDOW)
        .jump_if(R2, Test::NotEqual, 1, over)
        .store_number(Width::Word, R10, VALUE, WINDOW_SEGMENTS);
    option(program, Helper::SetSocketOption, INITIAL_WINDOW);
    program.jump_if(R0, Test::NotEqual, 0, over);
    count(program, counters, 3);
    program.place(over);
}

/// Reads or sets a TCP option of the socket; its value stands on the stack.
fn option(program: &mut Assembler, helper: Helper, name: i32) {
    program
        .set(R1, R6)
        .set(R2, LEVEL_TCP)
        .set(R3, name)
        .set(R4, R10)
        .add(R4, i32::from(VALUE))
        .set(R5, 4)
        .call(helper);
}

/// Adds one to counter `number`.
fn count(program: &mut Assembler, counters: BorrowedFd<'_>, number: usize) {
    program
        .set_address(R1, counters, number * BYTES_OF_WORD)
        .set(R2, 1)
        .atomic_add(Width::Double, R1, 0, R2);
}

fn small(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
