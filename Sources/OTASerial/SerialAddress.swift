import Glibc
public import OTATransport

/// The part of a device address after `serial:`, such as `/dev/ttyACM0` or `/dev/ttyUSB0?baud=921600`.
///
/// The address is the absolute path of a serial port. A baud rate may follow as `?baud=RATE`. The default is 115200 bits per second.
public struct SerialAddress: Sendable, Hashable {
    public static let defaultBaudRate = 115_200

    /// The absolute path of the serial port.
    public let path: String
    /// The baud rate in bits per second.
    public let baudRate: Int

    public init(parsing text: some StringProtocol) throws(AddressError) {
        let parts = text.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        path = String(parts.first ?? "")
        guard path.hasPrefix("/"), path.count > 1, !path.contains("\0") else {
            let hint = path.isEmpty || path.contains("/") ? "/dev/ttyACM0" : "/dev/\(path)"
            throw AddressError(
                "'\(path)' is not the path of a serial port (example: serial:/dev/ttyACM0)",
                hint: "use --device serial:\(hint); list the serial ports: ls /dev/serial/by-id")
        }
        baudRate = parts.count > 1 ? try Self.baudRate(parts[1], path) : Self.defaultBaudRate
    }

    private static func baudRate(_ query: some StringProtocol, _ path: String) throws(AddressError) -> Int {
        let item = query.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let hint = "use --device 'serial:\(path)?baud=\(defaultBaudRate)'"
        guard item.count == 2, item[0] == "baud" else {
            throw AddressError("'\(query)' is not an option of a serial address; expected baud=RATE", hint: hint)
        }
        guard let rate = Int(item[1]), BaudRate.speed(of: rate) != nil else {
            let rates = BaudRate.all.map(String.init).joined(separator: ", ")
            throw AddressError("'\(item[1])' is not a supported baud rate; expected one of \(rates)", hint: hint)
        }
        return rate
    }
}

extension SerialAddress: CustomStringConvertible {
    /// The address as text, without `serial:` and without the default baud rate.
    public var description: String { baudRate == Self.defaultBaudRate ? path : "\(path)?baud=\(baudRate)" }
}

/// The supported baud rates, in bits per second: all rates of at least 9600 that have a constant in Linux.
enum BaudRate {
    // The constants have the type Int32 before glibc 2.42, and UInt32 since glibc 2.42. The conversions accept both types.
    private static let speeds: KeyValuePairs<Int, speed_t> = [
        9600: speed_t(B9600), 19_200: speed_t(B19200), 38_400: speed_t(B38400), 57_600: speed_t(B57600),
        115_200: speed_t(B115200), 230_400: speed_t(B230400), 460_800: speed_t(B460800), 500_000: speed_t(B500000),
        576_000: speed_t(B576000), 921_600: speed_t(B921600), 1_000_000: speed_t(B1000000),
        1_152_000: speed_t(B1152000),
        1_500_000: speed_t(B1500000), 2_000_000: speed_t(B2000000), 2_500_000: speed_t(B2500000),
        3_000_000: speed_t(B3000000), 3_500_000: speed_t(B3500000), 4_000_000: speed_t(B4000000),
    ]

    static var all: [Int] { speeds.map(\.key) }

    /// Returns the termios constant of a baud rate; nil if the baud rate is not supported.
    static func speed(of rate: Int) -> speed_t? { speeds.first { $0.key == rate }?.value }
}
