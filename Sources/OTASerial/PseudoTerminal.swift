import DescriptorIO
import Glibc
package import OTAUpdate

/// A pair of connected terminals. A client opens the client's terminal as a serial port. The virtual device uses the device's terminal.
package struct PseudoTerminal: Sendable {
    /// The path of the client's terminal.
    package let path: String
    /// The device's terminal. It continues to work after a client has closed the client's terminal.
    package let device: SerialLine
    private let client: ClientEnd

    /// A permanently open descriptor of the client's terminal. If the last descriptor of this terminal is closed, Linux reports an error
    /// (EIO) for each read from the device's terminal.
    private final class ClientEnd: Sendable {
        let descriptor: CInt

        init(_ descriptor: CInt) { self.descriptor = descriptor }

        deinit { _ = close(descriptor) }
    }

    /// `TIOCGPTN` of Linux. This request returns the number of the client's terminal. Swift's Glibc module does not provide this constant
    /// or `posix_openpt`.
    private static let getNumber: UInt = 0x8004_5430
    /// `TIOCSPTLCK` of Linux. This request locks the client's terminal (1) or unlocks it (0).
    private static let setLock: UInt = 0x4004_5431

    /// - Throws: `unavailable`.
    package init() throws(LinkError) {
        let descriptor = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Self.failure() }
        // The `SerialLine` owns the descriptor and closes it, also if this initializer throws.
        device = try SerialLine(descriptor, name: "the pseudo-terminal")
        var number: CInt = 0
        var locked: CInt = 0
        guard ioctl(descriptor, Self.getNumber, &number) == 0, ioctl(descriptor, Self.setLock, &locked) == 0 else {
            throw Self.failure()
        }
        path = "/dev/pts/\(number)"
        let other = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC)
        guard other >= 0 else { throw Self.failure() }
        client = ClientEnd(other)
        // Raw mode turns the echo off. With the echo, the device would receive its own bytes before a client has set raw mode.
        var settings = termios()
        guard tcgetattr(other, &settings) == 0 else { throw Self.failure() }
        cfmakeraw(&settings)
        guard tcsetattr(other, TCSANOW, &settings) == 0 else { throw Self.failure() }
    }

    private static func failure() -> LinkError {
        LinkError(.unavailable, "cannot create a pseudo-terminal: \(DescriptorError.text(of: errno))")
    }
}
