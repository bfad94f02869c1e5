import DescriptorIO
import Glibc
package import OTAUpdate

/// A pair of connected terminals. It replaces a serial cable. A client opens the client's terminal as a serial port. The virtual device
/// uses the device's terminal.
package struct PseudoTerminal: Sendable {
    /// The path of the client's terminal.
    package let path: String
    /// The device's terminal. The virtual device can use this terminal even while no client has opened the client's terminal.
    package let device: SerialLine
    private let client: ClientEnd

    /// Keeps a descriptor of the client's terminal open. Without any open descriptor of the client's terminal, each read from the
    /// device's terminal would fail with EIO (Linux).
    private final class ClientEnd: Sendable {
        let descriptor: CInt

        init(_ descriptor: CInt) { self.descriptor = descriptor }

        deinit { _ = close(descriptor) }
    }

    /// `TIOCGPTN` of Linux: the ioctl request that returns the number N of the client's terminal. The path of the client's terminal is
    /// `/dev/pts/N`. The constant is defined here, because Swift's Glibc module does not provide `TIOCGPTN` or `posix_openpt`.
    private static let getNumber: UInt = 0x8004_5430
    /// `TIOCSPTLCK` of Linux: the ioctl request that locks (1) or unlocks (0) the client's terminal. Linux creates the
    /// terminal locked.
    private static let setLock: UInt = 0x4004_5431

    /// Creates a pair of terminals.
    ///
    /// - Parameter framing: the framing of the device's packets.
    /// - Throws: `unavailable` if a system call fails.
    package init(framing: SerialFraming = .console) throws(LinkError) {
        let descriptor = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Self.failure() }
        // `SerialLine` owns the descriptor, and closes it even if this initializer throws.
        device = try SerialLine(descriptor, name: "the pseudo-terminal", framing: framing)
        var number: CInt = 0
        var locked: CInt = 0
        guard ioctl(descriptor, Self.getNumber, &number) == 0, ioctl(descriptor, Self.setLock, &locked) == 0 else {
            throw Self.failure()
        }
        path = "/dev/pts/\(number)"
        let other = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC)
        guard other >= 0 else { throw Self.failure() }
        client = ClientEnd(other)
        // Raw mode turns the echo off. A client sets raw mode, too, but only after it has opened the terminal. Until then, the echo would
        // return the device's bytes to the device.
        var settings = termios()
        guard tcgetattr(other, &settings) == 0 else { throw Self.failure() }
        cfmakeraw(&settings)
        guard tcsetattr(other, TCSANOW, &settings) == 0 else { throw Self.failure() }
    }

    private static func failure() -> LinkError {
        LinkError(.unavailable, "cannot create a pseudo-terminal: \(DescriptorError.text(of: errno))")
    }
}
