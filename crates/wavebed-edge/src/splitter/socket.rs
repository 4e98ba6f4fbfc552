//! The splitter's sockets and their options.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::net::{
    AddressFamily, SocketFlags, SocketType, accept_with, bind, connect, getsockname, ipproto,
    listen as start_listening, socket_with, sockopt,
};
use wavebed_os::socket;

use super::settings::Settings;
use super::settings_value::Time;

/// Connections that wait to be accepted. Beyond it, and with half-open ones, the kernel answers with SYN cookies.
const BACKLOG: i32 = 4096;
/// SYN-ACKs are repeated after 1, 2 and 4 s: a half-open connection holds its place for 15 s and not for 63.
const SYN_ACK_RETRIES: u8 = 3;
/// Probes before a silent host counts as dead.
const KEEPALIVE_PROBES: u32 = 4;

/// The options of one leg.
struct LegOptions<'a> {
    congestion_control: Option<&'a str>,
    min_rto: Option<Time>,
    user_timeout: Option<Time>,
    keepalive: Option<Time>,
}

impl<'a> LegOptions<'a> {
    fn of_client(settings: &'a Settings) -> Self {
        Self {
            congestion_control: settings.client_congestion_control.as_deref(),
            min_rto: settings.client_min_rto,
            user_timeout: settings.client_user_timeout,
            keepalive: settings.keepalive,
        }
    }

    fn of_server(settings: &'a Settings) -> Self {
        Self {
            congestion_control: settings.server_congestion_control.as_deref(),
            min_rto: settings.server_min_rto,
            user_timeout: settings.server_user_timeout,
            keepalive: settings.keepalive,
        }
    }

    /// Sets what is valid before a connection exists and, on a listening socket, is inherited.
    fn prepare(&self, socket: &OwnedFd) -> io::Result<()> {
        sockopt::set_tcp_nodelay(socket, true)?;
        sockopt::set_socket_oobinline(socket, true)?;
        // The end of the program then resets the connection.
        sockopt::set_socket_linger(socket, Some(Duration::ZERO))?;
        if let Some(time) = self.min_rto {
            socket::set_min_rto(socket, time.0)?;
        }
        if let Some(time) = self.user_timeout {
            let ms = u32::try_from(time.0.as_millis()).unwrap_or(u32::MAX);
            sockopt::set_tcp_user_timeout(socket, ms.max(1))?;
        }
        if let Some(time) = self.keepalive {
            let time = time.0.max(Duration::from_secs(1));
            sockopt::set_socket_keepalive(socket, true)?;
            sockopt::set_tcp_keepidle(socket, time)?;
            sockopt::set_tcp_keepintvl(socket, time)?;
            sockopt::set_tcp_keepcnt(socket, KEEPALIVE_PROBES)?;
        }
        Ok(())
    }

    /// Sets what a route's attributes (`congctl`) would override when the connection begins.
    fn finish(&self, socket: &OwnedFd) -> io::Result<()> {
        if let Some(name) = self.congestion_control {
            sockopt::set_tcp_congestion(socket, name)?;
        }
        Ok(())
    }
}

fn open(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    Ok(socket)
}

/// Listens on `address`.
///
/// # Errors
/// The address is in use, an option is not available, or the process lacks `CAP_NET_ADMIN` for transparency.
pub fn listen(settings: &Settings, address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = open(address)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    if settings.is_transparent() {
        socket::set_transparent(&socket, address.is_ipv6())?;
    }
    LegOptions::of_client(settings).prepare(&socket)?;
    socket::set_unsent_limit(&socket, settings.client_unsent.option())?;
    socket::set_syn_retries(&socket, SYN_ACK_RETRIES)?;
    bind(&socket, &address)?;
    start_listening(&socket, BACKLOG)?;
    Ok(socket)
}

/// Accepts a connection: its socket, its client, and the address that the client wanted to reach.
///
/// # Errors
/// The error of accept4(2), or of an option.
pub fn accept(
    settings: &Settings,
    listener: impl AsFd,
) -> io::Result<(OwnedFd, SocketAddr, SocketAddr)> {
    let socket = accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
    let client = rustix::net::getpeername(&socket)?.ok_or(io::ErrorKind::NotConnected)?;
    let client = SocketAddr::try_from(client)?;
    // Of an intercepted connection, the local address is the one that the client wanted to reach.
    let wanted = local_address(&socket)?;
    LegOptions::of_client(settings).finish(&socket)?;
    Ok((socket, client, wanted))
}

/// Begins a connection with `server`: from `client`'s address in transparent mode.
///
/// # Errors
/// The error of bind(2), connect(2) or of an option.
pub fn begin_connection(
    settings: &Settings,
    client: SocketAddr,
    server: SocketAddr,
) -> io::Result<OwnedFd> {
    let socket = open(server)?;
    LegOptions::of_server(settings).prepare(&socket)?;
    if let Some(size) = settings.server_receive_buffer {
        sockopt::set_socket_recv_buffer_size(&socket, size.length())?;
    }
    if settings.is_transparent() {
        socket::set_transparent(&socket, server.is_ipv6())?;
        socket::set_mark(&socket, settings.own_mark())?;
        // A client may use one port for several servers.
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &client)?;
    }
    match connect(&socket, &server) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// Ends the beginning of a connection with a server: its outcome, and options.
///
/// # Errors
/// The connection failed.
pub fn end_connection(settings: &Settings, socket: &OwnedFd) -> io::Result<()> {
    sockopt::socket_error(socket)??;
    LegOptions::of_server(settings).finish(socket)
}

/// From now on the socket's bytes are delivered though the program closes it.
pub fn close_in_order(socket: &OwnedFd) {
    // A socket that is already closed has nothing to deliver.
    let _ = sockopt::set_socket_linger(socket, None);
}

/// Tries the options of both legs.
///
/// # Errors
/// The option that this machine refuses, as a line.
pub fn try_options(settings: &Settings) -> Result<(), String> {
    let legs = [
        ("client", LegOptions::of_client(settings)),
        ("server", LegOptions::of_server(settings)),
    ];
    for (name, options) in legs {
        let socket = open(SocketAddr::from(([127, 0, 0, 1], 0)))
            .map_err(|error| format!("cannot open a socket: {error}"))?;
        options.finish(&socket).map_err(|error| {
            let algorithm = options.congestion_control.unwrap_or_default();
            format!(
                "{name}-congestion-control: this kernel refuses `{algorithm}` ({error}): write one of \
                 net.ipv4.tcp_available_congestion_control, and start with CAP_NET_ADMIN"
            )
        })?;
        if settings.window_queue.is_some() {
            sockopt::set_socket_recv_buffer_size_force(&socket, 1 << 20).map_err(|error| {
                format!(
                    "window-queue: large receive buffers are refused ({error}): start with the machine's \
                     CAP_NET_ADMIN (that of a user namespace is not enough), or remove the key"
                )
            })?;
        }
        options.prepare(&socket).map_err(|error| {
            format!(
                "{name}-min-rto or {name}-user-timeout: this kernel refuses it ({error}): the former needs Linux 6.15 \
                 and two of its ticks, `8ms` at 250 Hz"
            )
        })?;
    }
    Ok(())
}

/// The socket's own address.
///
/// # Errors
/// The error of getsockname(2).
pub fn local_address(socket: impl AsFd) -> io::Result<SocketAddr> {
    Ok(SocketAddr::try_from(getsockname(socket)?)?)
}
