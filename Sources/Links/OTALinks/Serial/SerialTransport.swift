import DescriptorIO
import Glibc
public import OTAEngine
public import OTAUpdate

/// The transport to one device over a serial line. It has one channel. Each packet of a ``SerialFraming`` is one value of that channel.
///
/// The link opens as soon as the port is open, because a serial line has no connection setup. An open link does not show that a device is
/// connected. Only a response from the device shows this.
public struct SerialTransport: Transport {
    private let address: SerialAddress
    private let channel: Channel
    /// The framing of the last link, if it was detected. The next link tries it first.
    private let detected = Guarded<SerialFraming?>(nil)

    /// Creates a transport to the device at `address`.
    ///
    /// - Parameter channel: the channel of all packets.
    public init(_ address: SerialAddress, channel: Channel) {
        self.address = address
        self.channel = channel
    }

    /// Opens a link and runs the link until the link ends.
    ///
    /// - Throws: `noSuchDevice` if the port does not exist, `inUse` if another program uses the port, `unavailable` if the path is not a
    ///   serial port or the port cannot be opened.
    public func runLink(opened: (any Link) -> Void, receive: @escaping LinkSink) async throws(LinkError) -> LinkError {
        let expected = detected.with { $0 }
        let line = try SerialLine(
            SerialPort.open(address), name: address.path, framing: address.framing, expected: expected,
            release: SerialPort.release)
        // While the framing is unknown, the longest packet must fit in the device's buffer in every framing.
        let overhead = (address.framing ?? .console).bufferOverhead
        let link = SingleChannelLink(
            line, channel: channel, maximumValueLength: ConsoleFraming.longestPacket, framingOverhead: overhead,
            discardTime: (address.framing ?? expected)?.discardTime ?? .zero, receive: receive)
        let end = await link.run(opened: opened)
        if let framing = await line.framing { detected.with { $0 = framing } }
        return end
    }
}

/// Opens serial ports in raw mode: eight data bits, no parity, no flow control.
private enum SerialPort {
    /// Opens, locks and configures the port. Returns the descriptor of the port.
    ///
    /// - Throws: `noSuchDevice`, `inUse`, `unavailable`.
    static func open(_ address: SerialAddress) throws(LinkError) -> CInt {
        // Without O_NONBLOCK, open() waits for the carrier signal (DCD) of a modem.
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

    /// Locks the port against other programs in two ways. Terminal programs check the lock of flock(2). After the ioctl request TIOCEXCL,
    /// the kernel refuses to open the port for other programs.
    ///
    /// - Throws: `unavailable` if the path is not a serial port, `inUse` if another program has locked the port.
    private static func take(_ port: CInt, _ address: SerialAddress) throws(LinkError) {
        guard isatty(port) == 1 else { throw LinkError(.unavailable, "\(address.path) is not a serial port") }
        guard flock(port, LOCK_EX | LOCK_NB) == 0 else { throw failure(EBUSY, address) }
        // Do not use TIOCEXCL for a pseudo-terminal. If this program is killed, TIOCEXCL remains until all descriptors of the terminal
        // are closed. The program at the other end may keep such a descriptor open (`PseudoTerminal` does this), and then no program
        // could open the terminal again. The path does not show what the port is, because it can be a symbolic link.
        if !isPseudoTerminal(port) { _ = ioctl(port, UInt(TIOCEXCL)) }
    }

    /// The major device numbers of pseudo-terminals in Linux (`Documentation/admin-guide/devices.txt`).
    private static let pseudoTerminals: ClosedRange<dev_t> = 136...143

    private static func isPseudoTerminal(_ port: CInt) -> Bool {
        var status = stat()
        return fstat(port, &status) == 0 && pseudoTerminals.contains(status.st_rdev >> 8 & 0xFFF)
    }

    /// Removes both locks: the lock of flock(2) and TIOCEXCL.
    static func release(_ port: CInt) {
        _ = flock(port, LOCK_UN)
        _ = ioctl(port, UInt(TIOCNXCL))
    }

    private static func configure(_ port: CInt, _ address: SerialAddress) throws(LinkError) {
        var settings = termios()
        guard tcgetattr(port, &settings) == 0 else { throw failure(errno, address) }
        cfmakeraw(&settings)
        settings.c_cflag |= tcflag_t(CREAD | CLOCAL)
        // Without HUPCL, the signal DTR stays set after the port is closed. On many boards, a change of DTR resets the device. With
        // HUPCL, the next otaflash command would often reach a device that is still booting.
        settings.c_cflag &= ~(tcflag_t(HUPCL | CSTOPB) | CRTSCTS)
        guard let speed = BaudRate.speed(of: address.baudRate), cfsetspeed(&settings, speed) == 0,
            tcsetattr(port, TCSANOW, &settings) == 0
        else { throw failure(errno, address) }
        // Discard the bytes that arrived before the port was opened, because they do not belong to this link.
        _ = tcflush(port, TCIFLUSH)
    }

    private static func failure(_ reason: CInt, _ address: SerialAddress) -> LinkError {
        let text = "\(address.path): \(DescriptorError.text(of: reason))"
        return switch reason {
        case ENOENT, ENXIO, ENODEV: LinkError(.noSuchDevice, "no such serial port: \(text)")
        case EBUSY: LinkError(.inUse, "another program uses the serial port \(address.path)")
        case EACCES: LinkError(.unavailable, "\(text); access to serial ports requires membership in the group dialout")
        default: LinkError(.unavailable, text)
        }
    }
}
