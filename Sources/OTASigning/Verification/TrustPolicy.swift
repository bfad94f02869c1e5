public import OTAFirmware

/// What must also hold of a bundle or an image that is properly signed. Whatever is nil is not asked.
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
        try checkDemoKey(signers)
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

    /// An MCUboot image says neither for which product and hardware it is nor what it requires, so it is refused where
    /// one of the first two is asked for.
    ///
    /// - Parameter signer: nil: nobody answers for it.
    func check(_ image: MCUbootImage, signer: KeyID?) throws(VerificationError) {
        if let signer { try checkDemoKey([signer]) }
        if let product {
            throw VerificationError(.wrongProduct, "an MCUboot image does not say whether it is for \(product)")
        }
        if let hardware {
            throw VerificationError(
                .wrongHardware, "an MCUboot image does not say whether it is for hardware revision \(hardware)")
        }
        if let minimumSecurityCounter, image.securityCounter ?? 0 < minimumSecurityCounter {
            let own = image.securityCounter.map { "the image's security counter is \($0)" }
            throw VerificationError(
                .counterTooLow, "\(own ?? "the image has no security counter"), below \(minimumSecurityCounter)")
        }
    }

    /// Nothing is asked but that a trusted key has signed.
    static let unrestricted = TrustPolicy(allowsDemoKey: true)

    private func checkDemoKey(_ signers: [KeyID]) throws(VerificationError) {
        guard allowsDemoKey || signers.contains(where: { $0 != DemoKey.id }) else {
            throw VerificationError(.demoKey, "signed with the demo key, whose private half everybody has")
        }
    }
}
