/// What an image says of itself.
public struct FirmwareDescription: Sendable, Hashable {
    public enum Details: Sendable, Hashable {
        /// Bytes of which nothing is known.
        case raw
        case espressif(EspressifImage)
        case mcuboot(MCUbootImage)
    }

    /// In bytes, with all that follows the image in its file.
    public let size: UInt32
    public let details: Details
    /// What was not checked, or is noteworthy, for people.
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
        }
    }

    /// The version as the image has it, which need not be a semantic one.
    public var versionText: String? {
        switch details {
        case .raw: nil
        case .espressif(let image): image.application?.version
        case .mcuboot(let image): image.version.description
        }
    }

    /// `versionText` as a semantic version: without the `v` that may lead it, and strict from there on. `v1.2.3` is
    /// 1.2.3 and `v1.2.3-4-gabc` is 1.2.3-4-gabc; `1.2` is none.
    public var version: SemanticVersion? {
        versionText.flatMap { SemanticVersion($0.hasPrefix("v") ? $0.dropFirst() : $0[...]) }
    }

    /// The name the image gives itself, where it can be a product's.
    public var product: ProductName? {
        guard case .espressif(let image) = details else { return nil }
        return (image.application?.project).flatMap { ProductName($0) }
    }
}

/// What kind of image a bundle carries: the byte at offset 5 of its manifest.
public enum ImageFormat: UInt8, Sendable, CaseIterable {
    case raw = 0
    /// An ESP-IDF application image.
    case espressif = 1
    case mcuboot = 2

    /// What it is called in output: `raw`, `esp-idf`, `mcuboot`.
    public var name: String {
        switch self {
        case .raw: "raw"
        case .espressif: "esp-idf"
        case .mcuboot: "mcuboot"
        }
    }
}
