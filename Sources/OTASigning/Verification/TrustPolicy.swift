public import OTAFirmware

/// What must also hold of a bundle that is properly signed. Whatever is nil is not asked.
public struct TrustPolicy: Sendable, Equatable {
    public var product: ProductName?
    /// A revision that the bundle must be for.
    public var hardware: UInt16?
    /// The lowest security counter that is taken.
    public var minimumSecurityCounter: UInt32?
    /// What runs, for a bundle that requires a version.
    public var runningVersion: SemanticVersion?
    /// A bundle that nobody but the demo key vouches for is taken.
    public var allowsDemoKey: Bool

    public init(
        product: ProductName? = nil, hardware: UInt16? = nil, minimumSecurityCounter: UInt32? = nil,
        runningVersion: SemanticVersion? = nil, allowsDemoKey: Bool = false
    ) {
        self.product = product
        self.hardware = hardware
        self.minimumSecurityCounter = minimumSecurityCounter
        self.runningVersion = runningVersion
        self.allowsDemoKey = allowsDemoKey
    }

    func check(_ manifest: Manifest, signers: [KeyID]) throws(VerificationError) {
        guard allowsDemoKey || signers.contains(where: { $0 != DemoKey.id }) else {
            throw VerificationError(.demoKey, "signed with the demo key, whose private half everybody has")
        }
        if let product, manifest.product != product {
            throw VerificationError(.wrongProduct, "the bundle is for \(manifest.product), not for \(product)")
        }
        if let hardware, let revisions = manifest.hardware, !revisions.contains(hardware) {
            throw VerificationError(
                .wrongHardware, "the bundle is for hardware \(revisions), not for revision \(hardware)")
        }
        if let minimumSecurityCounter, manifest.securityCounter < minimumSecurityCounter {
            throw VerificationError(
                .counterTooLow,
                "the bundle's security counter is \(manifest.securityCounter), below \(minimumSecurityCounter)")
        }
        if let runningVersion, let required = manifest.requires, !required.isSatisfied(by: runningVersion) {
            throw VerificationError(
                .requiresNewer, "the bundle requires \(required) or later to be running, and \(runningVersion) runs")
        }
    }
}
