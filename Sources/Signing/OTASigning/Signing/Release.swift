public import OTAFirmware

/// The values that the caller of ``BundleSigner`` chooses for the manifest of a new bundle.
public struct Release: Sendable, Equatable {
    /// The product. If the value is nil, the signer uses the product in the image.
    public var product: ProductName?
    /// The version. If the value is nil, the signer uses the version in the image.
    public var version: SemanticVersion?
    /// The hardware revisions that can run the image. Nil means all revisions.
    public var hardware: HardwareRevisions?
    /// The security counter of the release. Nil means 0.
    public var securityCounter: UInt32?
    /// The minimum battery level of the device in per cent (0 to 100). Nil means no minimum.
    public var minimumBattery: UInt8?
    /// The name of the commit or build that produced the image. Nil means that the manifest does not contain a source.
    public var source: String?
    /// The minimum version that a device must run to install the update. Nil means any version.
    public var requires: RequiredVersion?
    /// The image format. If the value is nil, the signer detects the format.
    public var format: ImageFormat?

    public init(
        product: ProductName? = nil, version: SemanticVersion? = nil, hardware: HardwareRevisions? = nil,
        securityCounter: UInt32? = nil, minimumBattery: UInt8? = nil, source: String? = nil,
        requires: RequiredVersion? = nil, format: ImageFormat? = nil
    ) {
        self.product = product
        self.version = version
        self.hardware = hardware
        self.securityCounter = securityCounter
        self.minimumBattery = minimumBattery
        self.source = source
        self.requires = requires
        self.format = format
    }

    /// True if both the product and the version are given. If false, the signer must read the image to find the missing value.
    var isComplete: Bool { product != nil && version != nil }

    /// Checks that the product and the version are equal to those in the image. A value that is nil in the release or in the image is not
    /// compared.
    ///
    /// - Throws: `product-mismatch`, `version-mismatch`.
    func check(_ image: FirmwareDescription) throws(SigningError) {
        if let product, let own = image.product, product != own {
            throw .refused(.productMismatch, context: "the product in the image is \(own), not \(product)")
        }
        if let version, let own = image.version, version != own {
            throw .refused(.versionMismatch, context: "the version in the image is \(own), not \(version)")
        }
    }
}
