import OTASigning

/// The members of a gateway's record that the commands use. The record is not signed, so it is used only for warnings.
struct GatewaySummary {
    /// The number of devices that the gateway hears.
    let heard: Int

    /// Returns nil if the bytes are not the record of a gateway.
    init?(_ bytes: [UInt8]) {
        guard case .object(let members)? = try? JSON(parsing: bytes[...]),
            case .number(let text)? = members.first(where: { $0.name == "heard" })?.value,
            let heard = Int(text), (0...1_000_000).contains(heard)
        else { return nil }
        self.heard = heard
    }
}
