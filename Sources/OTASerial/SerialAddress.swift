public import OTATransport

/// The part of a device address after `serial:`. It is the path of a serial port, with `?baud=RATE` for a rate other than 115200.
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
                "behind serial: stands the path of a serial port, and '\(path)' is none",
                hint: "type --device serial:\(hint); see which there are: ls /dev/serial/by-id")
        }
        baudRate = parts.count > 1 ? try Self.baudRate(parts[1], path) : Self.defaultBaudRate
    }

    private static func baudRate(_ query: some StringProtocol, _ path: String) throws(AddressError) -> Int {
        let item = query.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let hint = "type --device 'serial:\(path)?baud=\(defaultBaudRate)'"
        guard item.count == 2, item[0] == "baud" else {
            throw AddressError("'\(query)' is not known behind a serial port; known is: baud", hint: hint)
        }
        guard let rate = Int(item[1]), BaudRate.speed(of: rate) != nil else {
            let rates = BaudRate.all.map(String.init).joined(separator: ", ")
            throw AddressError("'\(item[1])' is not a baud rate that is known; known are \(rates)", hint: hint)
        }
        return rate
    }
}

extension SerialAddress: CustomStringConvertible {
    /// The address as text, without `serial:`.
    public var description: String { baudRate == Self.defaultBaudRate ? path : "\(path)?baud=\(baudRate)" }
}
