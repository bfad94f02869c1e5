internal import OTAFirmware
internal import OTAFleet
internal import OTASigning

/// The record of a gateway in the bucket `gateways`. The gateway writes the record every 30 s. A record that was not
/// written for 90 s expires.
///
///     {"schema":1,"gateway":"berlin-7","life":"4f1c09ab","software":"2.0.0","slots":4,"pushing":1,"heard":17,"at":"2026-11-22T18:00:00Z"}
struct GatewayRecord: Sendable {
    static let interval = Duration.seconds(30)

    let holder: Holder
    /// The version of otaflash.
    let software: String
    let slots, pushing, heard: Int
    /// The last error of the store, or the last refusal of a record, a bundle or a push; nil if there was none in this run of the process.
    let lastError: String?
    let at: Timestamp?

    func encoded() -> [UInt8] {
        var members = [
            JSON.Member("schema", .number("1")),
            JSON.Member("gateway", .string(holder.gateway.text)),
            JSON.Member("life", .string(holder.life.text)),
            JSON.Member("software", .string(software)),
            JSON.Member("slots", .number("\(slots)")),
            JSON.Member("pushing", .number("\(pushing)")),
            JSON.Member("heard", .number("\(heard)")),
        ]
        if let lastError { members.append(JSON.Member("last_error", .string(String(lastError.prefix(500))))) }
        if let at { members.append(JSON.Member("at", .string(at.description))) }
        return JSON.object(members).text
    }
}
