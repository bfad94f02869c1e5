public import OTAFirmware

/// The conditions that a bundle or image must meet in addition to a valid signature. A condition that is nil is not checked.
public struct TrustPolicy: Sendable, Equatable {
    /// The required product. A bundle for another product is refused.
    public var product: ProductName?
    /// The device's hardware revision. A bundle that does not support this revision is refused.
    public var hardware: UInt16?
    /// The lowest accepted security counter.
    public var minimumSecurityCounter: UInt32?
    /// The version that the device runs. A bundle that requires a newer version is refused.
    public var runningVersion: SemanticVersion?
    /// Whether to accept a bundle or image if the demo key (``DemoKey``) is its only trusted signer.
    public var allowsDemoKey: Bool
    /// The minimum number of signers of the bundle or image (``SignerCount``): 1 or more. The demo key counts only if
    /// `allowsDemoKey` is true.
    public var minimumSigners: Int

    public init(
        product: ProductName? = nil, hardware: UInt16? = nil, minimumSecurityCounter: UInt32? = nil,
        runningVersion: SemanticVersion? = nil, allowsDemoKey: Bool = false, minimumSigners: Int = 1
    ) {
        self.product = product
        self.hardware = hardware
        self.minimumSecurityCounter = minimumSecurityCounter
        self.runningVersion = runningVersion
        self.allowsDemoKey = allowsDemoKey
        self.minimumSigners = minimumSigners
    }

    /// Checks the manifest of a bundle and its trusted signers.
    ///
    /// - Throws: `demo-key`, `too-few-signatures`, `wrong-product`, `wrong-hardware`, `counter-too-low`, `requires-newer`.
    func check(_ manifest: Manifest, signers: [KeyID], _ count: SignerCount) throws(VerificationError) {
        try checkSigners(signers, count)
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
                .requiresNewer, "the bundle requires version \(required) or later; the device runs \(runningVersion)")
        }
    }

    /// Checks an MCUboot image.
    ///
    /// An MCUboot image does not contain its product or its hardware revisions. A policy that requires a product or a hardware revision
    /// therefore refuses every MCUboot image. This method ignores `runningVersion`, because an MCUboot image cannot require a minimum
    /// version.
    ///
    /// - Parameter signer: the trusted key that signed the image, and its count. The value is nil if no trusted key signed the image, but
    ///   the user
    ///   consented to the transfer (``Consent``). The conditions for signers are then not checked.
    /// - Throws: `demo-key`, `too-few-signatures`, `wrong-product`, `wrong-hardware`, `counter-too-low`.
    func check(_ image: MCUbootImage, signer: (KeyID, SignerCount)?) throws(VerificationError) {
        if let (signer, count) = signer { try checkSigners([signer], count) }
        if let product {
            throw VerificationError(.wrongProduct, "an MCUboot image does not name its product; expected \(product)")
        }
        if let hardware {
            throw VerificationError(
                .wrongHardware, "an MCUboot image does not name its hardware revision; expected \(hardware)")
        }
        if let minimumSecurityCounter, image.securityCounter ?? 0 < minimumSecurityCounter {
            let own = image.securityCounter.map { "the image's security counter is \($0)" }
            throw VerificationError(
                .counterTooLow, "\(own ?? "the image has no security counter"), below \(minimumSecurityCounter)")
        }
    }

    /// The policy without conditions: it accepts every bundle and image that a trusted key signed, even if this key is the demo key.
    static let unrestricted = TrustPolicy(allowsDemoKey: true)

    func checkSigners(_ signers: [KeyID], _ count: SignerCount) throws(VerificationError) {
        guard allowsDemoKey || signers.contains(where: { $0 != DemoKey.id }) else {
            throw VerificationError(.demoKey, "signed only with the demo key, whose private key is public")
        }
        guard count.signers >= minimumSigners else {
            throw VerificationError(
                .tooFewSignatures,
                "signed by \(count.signers) of the \(minimumSigners) required trusted keys\(count.remark)")
        }
    }

    /// Returns the signers that count: all, or without `allowsDemoKey` all but the demo key.
    func counted(_ signers: [KeyID]) -> Set<KeyID> {
        Set(allowsDemoKey ? signers : signers.filter { $0 != DemoKey.id })
    }
}
