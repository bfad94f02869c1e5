import OTAProtocol
import OTAUpdate

/// The part of the frames with bytes of the update, such as the image, that a log has.
package enum LoggedData: Sendable {
    /// The log does not have these frames.
    case nothing
    /// The log has the start of these frames, such as the sequence number or the offset, and the number of the other bytes.
    case lengths
    /// The log has these frames completely.
    case bytes

    /// Returns the values of one packet to the device as the log has them: the logged bytes, and the number of bytes that are left out.
    func logged(_ values: [[UInt8]], on channel: Channel) -> [(bytes: [UInt8], hidden: Int)] {
        let visible = Protocols.definition(of: channel)?.headers(of: values, on: channel)
        guard self != .bytes, let visible else { return values.map { ($0, 0) } }
        guard self == .lengths else { return [] }
        return zip(values, visible).map { (Array($0.prefix($1)), $0.count - $1) }
    }
}
