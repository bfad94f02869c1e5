import DescriptorIO
import Glibc
import OTAUpdate

/// A serial port as a descriptor that carries bytes as they are, eight bits each, without parity or flow control.
enum SerialPort {
    /// - Throws: `noSuchDevice`, `inUse`, `unavailable`.
    static func open(_ address: SerialAddress) throws(LinkError) -> CInt {
        // Without waiting for a carrier.
        let port = Glibc.open(address.path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)
        guard port >= 0 else { throw failure(errno, address) }
        do throws(LinkError) {
            try take(port, address)
            try configure(port, address)
            return port
        } catch {
            _ = Glibc.close(port)
            throw error
        }
    }

    /// For ourselves alone: by the lock that terminal programs look at, and by the one that the kernel does.
    private static func take(_ port: CInt, _ address: SerialAddress) throws(LinkError) {
        guard isatty(port) == 1 else { throw LinkError(.unavailable, "\(address.path) is no serial port") }
        guard flock(port, LOCK_EX | LOCK_NB) == 0 else { throw failure(EBUSY, address) }
        // The kernel's lasts until nobody has the port open any more; a pseudo-terminal's other end may keep it open for good.
        if !address.path.hasPrefix("/dev/pts/") { _ = ioctl(port, UInt(TIOCEXCL)) }
    }

    /// Undoes `take`.
    static func release(_ port: CInt) {
        _ = flock(port, LOCK_UN)
        _ = ioctl(port, UInt(TIOCNXCL))
    }

    private static func configure(_ port: CInt, _ address: SerialAddress) throws(LinkError) {
        var settings = termios()
        guard tcgetattr(port, &settings) == 0 else { throw failure(errno, address) }
        cfmakeraw(&settings)
        settings.c_cflag |= tcflag_t(CREAD | CLOCAL)
        // Without HUPCL, DTR stays up when the port is closed: on many boards its edge is a reset, and the next command would
        // meet a device that boots.
        settings.c_cflag &= ~(tcflag_t(HUPCL | CSTOPB) | CRTSCTS)
        guard let speed = BaudRate.speed(of: address.baudRate), cfsetspeed(&settings, speed) == 0,
            tcsetattr(port, TCSANOW, &settings) == 0
        else { throw failure(errno, address) }
        // What came before was not meant for us.
        _ = tcflush(port, TCIFLUSH)
    }

    private static func failure(_ reason: CInt, _ address: SerialAddress) -> LinkError {
        let text = "\(address.path): \(DescriptorError.text(of: reason))"
        return switch reason {
        case ENOENT, ENXIO, ENODEV: LinkError(.noSuchDevice, "there is no serial port \(text)")
        case EBUSY: LinkError(.inUse, "another program has the serial port \(address.path)")
        case EACCES: LinkError(.unavailable, "\(text); whoever may use serial ports is in the group dialout")
        default: LinkError(.unavailable, text)
        }
    }
}
