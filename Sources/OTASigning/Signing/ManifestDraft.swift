internal import OTAFirmware

/// A manifest without the image's format and digest. Its length is already known.
struct ManifestDraft {
    private let release: Release
    private let product: ProductName
    private let version: SemanticVersion
    private let imageSize: UInt32
    private let created: UInt64

    /// - Throws: `product-required` or `version-required` if neither `release` nor `image` has the value.
    init(
        _ release: Release, of image: FirmwareDescription?, imageSize: UInt32, created: UInt64
    ) throws(SigningError) {
        guard let product = release.product ?? image?.product else {
            throw .refused(
                .productRequired, context: "the image does not say for which product it is", hint: "give --product NAME"
            )
        }
        guard let version = release.version ?? image?.version else {
            let own = image?.versionText.map { "the version that the image carries, \($0), is no semantic version" }
            throw .refused(
                .versionRequired, context: own ?? "the image does not say which version it is",
                hint: "give --version X.Y.Z")
        }
        self.release = release
        self.product = product
        self.version = version
        self.imageSize = imageSize
        self.created = created
    }

    func manifest(format: ImageFormat, digest: SHA256Digest) throws(SigningError) -> Manifest {
        try bundleChecked { () throws(BundleError) in
            try Manifest(
                imageFormat: format, imageSize: imageSize, securityCounter: release.securityCounter ?? 0,
                created: created, imageDigest: digest, version: version, product: product,
                hardware: release.hardware, minimumBattery: release.minimumBattery, source: release.source,
                requires: release.requires)
        }
    }

    /// Returns a manifest with the final length and placeholders for format and digest.
    func placeholder() throws(SigningError) -> Manifest {
        try manifest(format: .raw, digest: SHA256.digest(of: []))
    }
}
