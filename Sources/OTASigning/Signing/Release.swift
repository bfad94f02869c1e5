public import OTAFirmware

/// The values that the caller of `BundleSigner` chooses for the manifest of a new bundle.
public struct Release: Sendable, Equatable {
    /// The product. If it is nil, the signer uses the product that the image contains.
    public var product: ProductName?
    /// The version. If it is nil, the signer uses the version that the image contains.
    public var version: SemanticVersion?
    /// The hardware revisions that support the image. Nil means all revisions.
    public var hardware: HardwareRevisions?
    /// The security counter of the release. Nil means 0.
    public var securityCounter: UInt32?
    /// The minimum battery level of the device in per cent (0 to 100). Nil means no minimum.
    public var minimumBattery: UInt8?
    /// The commit or the build that the image was made from.
    public var source: String?
    /// The minimum version that a device must run before the update. Nil means any version.
    public var requires: RequiredVersion?
    /// The image format. If it is nil, the signer detects the format.
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

    /// Whether the caller gave the product and the version. If not, the signer reads them from the image.
    var isComplete: Bool { product != nil && version != nil }

    /// Compares the product and the version with those in the image. Values that are nil are not compared.
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
