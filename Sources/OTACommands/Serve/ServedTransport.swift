import OTATransport
import OTAUDP

/// Where a virtual device is put.
enum ServedTransport: Sendable {
    /// Nil: the first adapter that is powered.
    case bluetooth(adapter: String?)
    case udp(UDPAddress)
    case serial

    var protocols: Set<UpdateProtocol> {
        if case .bluetooth = self { [.ota, .smp] } else { [.smp] }
    }

    /// - Parameter text: `PORT`, of this machine alone, or `HOST:PORT`; port 0 stands for any that is free.
    static func udp(parsing text: String) throws(Failure) -> ServedTransport {
        if let port = UInt16(text) { return .udp(UDPAddress(host: "127.0.0.1", port: port)) }
        do {
            return .udp(try UDPAddress(parsing: text))
        } catch {
            throw Failure.usage("'\(text)' is not where to listen: \(error.context)", hint: "type --udp 1337")
        }
    }
}
