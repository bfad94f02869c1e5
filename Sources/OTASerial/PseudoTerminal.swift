import DescriptorIO
import Glibc
package import OTAUpdate

/// A pair of connected terminals: whoever opens the one sees a serial port, and the other is the device behind it.
package struct PseudoTerminal: Sendable {
    /// What the client opens.
    package let path: String
    /// The device's end. It lasts while clients come and go.
    package let device: SerialLine
    private let client: ClientEnd

    /// Keeps the client's end open, since the device's would be hung up with the last client.
    private final class ClientEnd: Sendable {
        let descriptor: CInt

        init(_ descriptor: CInt) { self.descriptor = descriptor }

        deinit { _ = close(descriptor) }
    }

    /// `TIOCGPTN` and `TIOCSPTLCK` of Linux: which terminal is the other end, and whether it is locked. Swift's Glibc has neither
    /// them nor `posix_openpt`.
    private static let getNumber: UInt = 0x8004_5430
    private static let setLock: UInt = 0x4004_5431

    /// - Throws: `unavailable`.
    package init() throws(LinkError) {
        let descriptor = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Self.failure() }
        // From here on the line closes it.
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
        // Else what the device says before there is a client would be echoed to it.
        var settings = termios()
        guard tcgetattr(other, &settings) == 0 else { throw Self.failure() }
        cfmakeraw(&settings)
        guard tcsetattr(other, TCSANOW, &settings) == 0 else { throw Self.failure() }
    }

    private static func failure() -> LinkError {
        LinkError(.unavailable, "no pseudo-terminal could be made: \(DescriptorError.text(of: errno))")
    }
}
