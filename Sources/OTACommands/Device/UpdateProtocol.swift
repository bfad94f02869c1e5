import ArgumentParser

/// The protocol of an update session.
enum UpdateProtocol: String, Encodable, ExpressibleByArgument, Sendable, CaseIterable {
    /// The GATT OTA profile (docs/ota-profile.md).
    case ota
    /// MCUmgr's protocol (docs/smp.md).
    case smp
}
