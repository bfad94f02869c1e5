import OTATransport
import OTAUDP
import OTAUpdate

/// The transport over which a virtual device is served.
enum ServedTransport: Sendable {
    /// Bluetooth LE; adapter nil: the first powered adapter.
    case bluetooth(adapter: String?)
    case udp(UDPAddress)
    case serial

    var protocols: Set<UpdateProtocol> {
        if case .bluetooth = self { [.ota, .smp] } else { [.smp] }
    }

    /// Parses the value of `--udp`.
    ///
    /// - Parameter text: `PORT` for the loopback address only, or `HOST:PORT`; port 0: any free port.
    /// - Throws: `Failure`: `usage`.
    static func udp(parsing text: String) throws(Failure) -> ServedTransport {
        if let port = UInt16(text) { return .udp(UDPAddress(host: "127.0.0.1", port: port)) }
        do {
            return .udp(try UDPAddress(parsing: text))
        } catch {
            throw Failure.usage(
                "'\(text)' is not a valid UDP port or HOST:PORT: \(error.context)", hint: "use --udp 1337, for example")
        }
    }
}
