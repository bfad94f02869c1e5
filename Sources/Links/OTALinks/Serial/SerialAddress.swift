import Glibc
public import OTAEngine

/// The part of a device address after `serial:`, such as `/dev/ttyACM0` or `/dev/ttyUSB0?baud=921600&framing=raw`.
///
/// The address is the absolute path of a serial port. The options `baud=RATE` and `framing=FRAMING` may follow, in any order.
public struct SerialAddress: Sendable, Hashable {
    public static let defaultBaudRate = 115_200

    /// The absolute path of the serial port.
    public let path: String
    /// The baud rate in bits per second.
    public private(set) var baudRate = defaultBaudRate
    /// The framing of the packets; nil: it is detected.
    public private(set) var framing: SerialFraming?

    public init(parsing text: some StringProtocol) throws(AddressError) {
        let parts = text.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        path = String(parts.first ?? "")
        guard path.hasPrefix("/"), path.count > 1, !path.contains("\0") else {
            let hint = path.isEmpty || path.contains("/") ? "/dev/ttyACM0" : "/dev/\(path)"
            throw AddressError(
                "'\(path)' is not the path of a serial port (example: serial:/dev/ttyACM0)",
                hint: "use --device serial:\(hint); list the serial ports: ls /dev/serial/by-id")
        }
        guard parts.count > 1 else { return }
        var given: Set<String> = []
        for option in String(parts[1]).split(separator: "&", omittingEmptySubsequences: false) {
            let item = option.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map { String($0) }
            guard item.count == 2, given.insert(item[0]).inserted else { throw unknown(option) }
            try set(item[0], to: item[1], option)
        }
    }

    /// Creates the address of a port with the default baud rate.
    package init(path: String, framing: SerialFraming?) {
        self.path = path
        self.framing = framing
    }

    private mutating func set(_ name: String, to value: String, _ option: some StringProtocol) throws(AddressError) {
        switch name {
        case "baud":
            guard let rate = Int(value), BaudRate.speed(of: rate) != nil else {
                let rates = BaudRate.all.map(String.init).joined(separator: ", ")
                throw AddressError(
                    "'\(value)' is not a supported baud rate; expected one of \(rates)",
                    hint: "use --device 'serial:\(path)?baud=\(Self.defaultBaudRate)'")
            }
            baudRate = rate
        case "framing":
            guard let named = SerialFraming(rawValue: value) else {
                throw AddressError(
                    "'\(value)' is not a framing; expected \(Self.framings)",
                    hint: "use --device 'serial:\(path)?framing=raw', or omit the option: the framing is then detected")
            }
            framing = named
        default: throw unknown(option)
        }
    }

    private static let framings = "console, raw or raw-cobs"

    private func unknown(_ option: some StringProtocol) -> AddressError {
        AddressError(
            "'\(option)' is not an option of a serial address; expected baud=RATE or framing=FRAMING (\(Self.framings)), each once",
            hint: "use --device 'serial:\(path)?baud=\(Self.defaultBaudRate)'")
    }
}

extension SerialAddress: CustomStringConvertible {
    /// The address as text, without `serial:` and without the default baud rate.
    public var description: String {
        let options =
            (baudRate == Self.defaultBaudRate ? [] : ["baud=\(baudRate)"])
            + (framing.map { ["framing=\($0.rawValue)"] } ?? [])
        return options.isEmpty ? path : "\(path)?\(options.joined(separator: "&"))"
    }
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
