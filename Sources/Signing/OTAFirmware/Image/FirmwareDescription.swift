/// The properties of a firmware image, as a parser found them in the bytes of the image.
public struct FirmwareDescription: Sendable, Hashable {
    public enum Details: Sendable, Hashable {
        /// An image without a known format.
        case raw
        case espressif(EspressifImage)
        case mcuboot(MCUbootImage)
        /// A Nordic DFU package. The inspector does not read it.
        case nordicDFU
    }

    /// The number of bytes that the parser received: the image and the bytes after it.
    public let size: UInt32
    public let details: Details
    /// Remarks for the user, for example about a signature that was not checked.
    public let notes: [String]

    init(size: UInt64, details: Details, notes: [String]) {
        self.size = UInt32(clamping: size)
        self.details = details
        self.notes = notes
    }

    public var format: ImageFormat {
        switch details {
        case .raw: .raw
        case .espressif: .espressif
        case .mcuboot: .mcuboot
        case .nordicDFU: .nordicDFU
        }
    }

    /// The version text in the image; nil if the image has no version. The text is not always a semantic version.
    public var versionText: String? {
        switch details {
        case .raw, .nordicDFU: nil
        case .espressif(let image): image.application?.version
        case .mcuboot(let image): image.version.description
        }
    }

    /// `versionText` without a leading `v`, as a semantic version. Nil if the text without the `v` is not a semantic version.
    ///
    /// `v1.2.3` becomes 1.2.3, and `v1.2.3-4-gabc` becomes 1.2.3-4-gabc. `1.2` becomes nil.
    public var version: SemanticVersion? {
        versionText.flatMap { SemanticVersion($0.hasPrefix("v") ? $0.dropFirst() : $0[...]) }
    }

    /// The project name in an ESP-IDF image. Nil if this name is not a valid product name, or if the image has another format.
    public var product: ProductName? {
        guard case .espressif(let image) = details else { return nil }
        return (image.application?.project).flatMap { ProductName($0) }
    }
}

/// The format of an image. The raw value is the byte at offset 5 of a bundle's manifest.
public enum ImageFormat: UInt8, Sendable, CaseIterable {
    case raw = 0
    /// An ESP-IDF application image.
    case espressif = 1
    case mcuboot = 2
    /// A package for Nordic Secure DFU or Nordic Legacy DFU (``NordicPackage``). No device with the GATT OTA profile accepts it.
    case nordicDFU = 3

    /// The formats that a bootloader can boot. A device with the GATT OTA profile accepts one of them, or all.
    public static let bootable: [ImageFormat] = [.raw, .espressif, .mcuboot]

    /// The name of the format in messages: `raw`, `esp-idf`, `mcuboot` or `nordic-dfu`.
    public var name: String {
        switch self {
        case .raw: "raw"
        case .espressif: "esp-idf"
        case .mcuboot: "mcuboot"
        case .nordicDFU: "nordic-dfu"
        }
    }

    /// Returns the format of an image from the magic at its start.
    static func recognise(_ start: [UInt8]) -> ImageFormat {
        if start.first == EspressifImage.magic { return .espressif }
        if start.starts(with: FirmwareFileKind.zipMagic) { return .nordicDFU }
        return start.starts(with: MCUbootImage.magic) ? .mcuboot : .raw
    }
}
