import ArgumentParser

/// What is spoken with a device.
enum UpdateProtocol: String, Encodable, ExpressibleByArgument, Sendable, CaseIterable {
    /// The GATT OTA profile (docs/ota-profile.md).
    case ota
    /// MCUmgr's protocol (docs/smp.md).
    case smp
}
