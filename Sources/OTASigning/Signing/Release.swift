public import OTAFirmware

/// The values of a release that the caller gives for its manifest.
public struct Release: Sendable, Equatable {
    /// Nil: the product in the image, if it contains one.
    public var product: ProductName?
    /// Nil: the version in the image, if it contains one.
    public var version: SemanticVersion?
    /// The hardware revisions that the image is for. Nil: all.
    public var hardware: HardwareRevisions?
    /// The security counter of the release. Nil: 0.
    public var securityCounter: UInt32?
    /// The minimum battery level of the device, in per cent (0 to 100). Nil: no minimum.
    public var minimumBattery: UInt8?
    /// The commit or build of the image.
    public var source: String?
    /// The lowest version that the device must run before the update. Nil: any version.
    public var requires: RequiredVersion?
    /// The image format. Nil: detect it.
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

    /// Whether product and version are known without the image.
    var isComplete: Bool { product != nil && version != nil }

    /// Checks that the image does not contain another product or version.
    ///
    /// - Throws: `product-mismatch`, `version-mismatch`.
    func check(_ image: FirmwareDescription) throws(SigningError) {
        if let product, let own = image.product, product != own {
            throw .refused(.productMismatch, context: "the image says that it is for \(own), not for \(product)")
        }
        if let version, let own = image.version, version != own {
            throw .refused(.versionMismatch, context: "the image says that it is version \(own), not \(version)")
        }
    }
}
