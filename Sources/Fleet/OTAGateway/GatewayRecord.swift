internal import OTAFirmware
public import OTAFleet
internal import OTASigning

/// The record of a gateway in the bucket `gateways`. The gateway writes the record every 30 s. A record that was not
/// written for 90 s expires. The record is not signed, so it is used only for reports and warnings.
///
///     {"schema":1,"gateway":"berlin-7","instance":"4f1c09ab","software":"2.0.0","slots":4,"pushing":1,"heard":17,"at":"2026-11-22T18:00:00Z"}
public struct GatewayRecord: Sendable, Hashable {
    static let interval = Duration.seconds(30)

    /// The name of the gateway, and the identifier of this run of its process.
    public let holder: Holder
    /// The version of otaflash.
    public let software: String
    /// The maximum number of attempts at the same time, the number of attempts under way, and the number of devices in range.
    public let slots, pushing, heard: Int
    /// The last error of the store, or the last refusal of a record, a bundle or a push; nil if there was none in this run of the process.
    public let lastError: String?
    /// The time of the write; nil if the clock of the gateway is not set.
    public let at: Timestamp?

    init(
        holder: Holder, software: String, slots: Int, pushing: Int, heard: Int, lastError: String?, at: Timestamp?
    ) {
        self.holder = holder
        self.software = software
        self.slots = slots
        self.pushing = pushing
        self.heard = heard
        self.lastError = lastError
        self.at = at
    }

    /// Parses a record.
    ///
    /// - Throws: `record-malformed`; `too-new` if the schema number is higher than ``RecordLimits/schema``.
    public init(parsing bytes: [UInt8]) throws(FleetError) {
        guard let json = try? JSON(parsing: bytes[...]) else { throw Self.malformed("is not valid JSON") }
        func number(_ name: String) throws(FleetError) -> Int {
            guard case .number(let digits) = json[name], let number = Int(digits), (0...1_000_000).contains(number)
            else { throw Self.malformed("has no number '\(name)'") }
            return number
        }
        guard try number("schema") <= RecordLimits.schema else {
            throw FleetError(.tooNew, "a newer otaflash wrote the record of the gateway")
        }
        guard let name = json["gateway"]?.string.flatMap({ GatewayName($0) }),
            let instance = json["instance"]?.string.flatMap({ GatewayInstance($0) }),
            let software = json["software"]?.string
        else { throw Self.malformed("has no name, instance or version") }
        holder = Holder(gateway: name, instance: instance)
        self.software = software
        slots = try number("slots")
        pushing = try number("pushing")
        heard = try number("heard")
        lastError = json["last_error"]?.string
        at = json["at"]?.string.flatMap { Timestamp($0) }
    }

    private static func malformed(_ problem: String) -> FleetError {
        FleetError(.malformed, "the record of the gateway \(problem)")
    }

    func encoded() -> [UInt8] {
        var members = [
            JSON.Member("schema", .number("1")),
            JSON.Member("gateway", .string(holder.gateway.text)),
            JSON.Member("instance", .string(holder.instance.text)),
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
