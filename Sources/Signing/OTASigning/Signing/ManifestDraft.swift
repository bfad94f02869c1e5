internal import OTAFirmware

/// The values of a manifest, except the format and the digest of the image. These two values are known only after the image was read. Both
/// have fixed lengths, so the length of the manifest is known earlier.
struct ManifestDraft {
    private let release: Release
    private let product: ProductName
    private let version: SemanticVersion
    private let imageSize: UInt32
    private let created: UInt64

    /// Creates a draft. If `release` does not contain the product or the version, the draft uses the value in `image`.
    ///
    /// - Throws: `product-required` if `release` and `image` contain no product; `version-required` if `release` and `image` contain no
    ///   version.
    init(
        _ release: Release, of image: FirmwareDescription?, imageSize: UInt32, created: UInt64
    ) throws(SigningError) {
        guard let product = release.product ?? image?.product else {
            throw .refused(
                .productRequired, context: "the image does not name its product", hint: "give --product NAME"
            )
        }
        guard let version = release.version ?? image?.version else {
            let own = image?.versionText.map { "the image's version '\($0)' is not a semantic version" }
            throw .refused(
                .versionRequired, context: own ?? "the image does not contain its version",
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

    /// Returns a manifest with placeholders for the format and the digest. This manifest has the same length as the final manifest.
    func placeholder() throws(SigningError) -> Manifest {
        try manifest(format: .raw, digest: SHA256.digest(of: []))
    }
}
