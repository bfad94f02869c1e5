import DescriptorIO
import Glibc
package import OTAUpdate

/// A pair of connected terminals. The client opens one terminal as a serial port; the device uses the other.
package struct PseudoTerminal: Sendable {
    /// The path of the client's terminal.
    package let path: String
    /// The device's terminal. It stays open when a client closes its terminal.
    package let device: SerialLine
    private let client: ClientEnd

    /// Keeps the client's terminal open. Otherwise the kernel hangs up the device's terminal when the last client closes.
    private final class ClientEnd: Sendable {
        let descriptor: CInt

        init(_ descriptor: CInt) { self.descriptor = descriptor }

        deinit { _ = close(descriptor) }
    }

    /// `TIOCGPTN` of Linux, which returns the number of the client's terminal. Swift's Glibc provides neither this constant nor
    /// `posix_openpt`.
    private static let getNumber: UInt = 0x8004_5430
    /// `TIOCSPTLCK` of Linux, which sets the lock of the client's terminal.
    private static let setLock: UInt = 0x4004_5431

    /// - Throws: `unavailable`.
    package init() throws(LinkError) {
        let descriptor = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Self.failure() }
        // From here on, the line closes the descriptor.
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
        // In raw mode the terminal does not echo bytes back to the device before a client connects.
        var settings = termios()
        guard tcgetattr(other, &settings) == 0 else { throw Self.failure() }
        cfmakeraw(&settings)
        guard tcsetattr(other, TCSANOW, &settings) == 0 else { throw Self.failure() }
    }

    private static func failure() -> LinkError {
        LinkError(.unavailable, "no pseudo-terminal could be made: \(DescriptorError.text(of: errno))")
    }
}
