public import OTAFirmware

/// What a release is said to be, beyond what its image says of itself.
public struct Release: Sendable, Equatable {
    /// Nil: the image's own, where it carries one.
    public var product: ProductName?
    /// Nil: the image's own, where it carries one.
    public var version: SemanticVersion?
    /// Nil: any revision.
    public var hardware: HardwareRevisions?
    /// Nil: 0.
    public var securityCounter: UInt32?
    /// Per cent, 0 to 100.
    public var minimumBattery: UInt8?
    /// The commit or build it came from.
    public var source: String?
    /// The lowest version that may be running.
    public var requires: RequiredVersion?
    /// Nil: it is recognised.
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

    /// Nothing has to be asked of the image.
    var isComplete: Bool { product != nil && version != nil }

    /// Refuses an image that says something else of itself.
    func check(_ image: FirmwareDescription) throws(SigningError) {
        if let product, let own = image.product, product != own {
            throw .refused(.productMismatch, context: "the image says that it is for \(own), not for \(product)")
        }
        if let version, let own = image.version, version != own {
            throw .refused(.versionMismatch, context: "the image says that it is version \(own), not \(version)")
        }
    }
}
