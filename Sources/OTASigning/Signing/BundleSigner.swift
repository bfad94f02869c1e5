public import OTAFirmware
public import SystemPackage

/// Creates signed bundles from image files. The signer reads a binary image in pieces, so the image can be larger than the memory.
///
/// The signer leaves space for the envelope at the start of the output file. It copies the image after this space and computes the image's
/// digest. It writes the envelope last, because the envelope contains the digest.
public struct BundleSigner: Sendable {
    private let keys: [any Signer]

    /// Creates a signer that adds one signature for each of `keys` to every bundle.
    ///
    /// - Throws: `key-required` if `keys` is empty; `already-signed` if `keys` contains a key twice; `too-many-signatures` for more than
    ///   four keys.
    public init(keys: [any Signer]) throws(SigningError) {
        guard !keys.isEmpty else {
            throw .refused(.keyRequired, context: "no private key was given", hint: "give --key FILE")
        }
        self.keys = keys
        try check(signing: [])
    }

    /// Creates a signed bundle. If the input is an image, the bundle gets a new manifest. If the input is a bundle, the output is the same
    /// bundle with additional signatures.
    ///
    /// - Parameters:
    ///   - input: the path of an image, of Intel HEX text, or of a bundle.
    ///   - release: the values for the manifest. If the input is a bundle, all values must be nil.
    ///   - created: the creation time in Unix seconds. If the input is a bundle, this time is not used. Two calls with the same image,
    ///     values, keys and time create identical bundles.
    ///   - output: the path of the new bundle. A failed call does not leave an incomplete file at this path.
    ///   - replace: whether the new bundle may replace an existing file at `output`. The replacement is atomic. `output` may be the same
    ///     path as `input`.
    /// - Returns: the path and the contents of the new bundle.
    public func sign(
        _ input: FilePath, as release: Release = Release(), created: UInt64, to output: FilePath, replace: Bool = false
    ) throws(SigningError) -> SignedFile {
        try sign(
            InputFile(input), named: input, as: release, created: created, to: OutputFile(output, replaces: replace))
    }

    /// Creates a signed bundle like `sign(_:as:created:to:replace:)`, but reads an open input file or stream.
    ///
    /// - Parameter input: the name of the input in messages.
    package func sign(
        _ file: InputFile, named input: FilePath, as release: Release, created: UInt64, to output: OutputFile
    ) throws(SigningError) -> SignedFile {
        switch FirmwareFileKind.detect(prefix: try file.prefix(FirmwareFileKind.prefixLength)) {
        case .bundle:
            guard release == Release() else {
                throw .refused(
                    .alreadyABundle, context: "\(input): this is a bundle; sign can only add signatures to it",
                    hint: "use --key without other values, or sign the original image")
            }
            return try addSignatures(to: file, output)
        case .intelHex:
            return try sign(ImageSource(intelHexIn: file), release, created, output)
        default:
            return try sign(ImageSource(file), release, created, output)
        }
    }

    private func sign(
        _ source: ImageSource, _ release: Release, _ created: UInt64, _ output: OutputFile
    ) throws(SigningError) -> SignedFile {
        // The offset of the image is the envelope's length, which depends on the product and the version. If `release` does not contain
        // both values, the signer reads the image twice: first to find these values, then to copy the image.
        let asked = release.isComplete ? nil : try source.inspect(as: release.format) { _ in }
        let draft = try ManifestDraft(release, of: asked, imageSize: source.size, created: created)
        let space = try envelope(draft.placeholder()) { _ in [UInt8](repeating: 0, count: 64) }
        let copy = HashingCopy(to: output, after: space)
        let image = try source.inspect(as: release.format, copy.append)
        guard asked == nil || asked == image else { throw source.changed }
        try release.check(image)

        let manifest = try draft.manifest(format: image.format, digest: copy.finish())
        return try finish(envelope(manifest, signature: signature(over: manifest)), image, output)
    }

    private func addSignatures(to file: InputFile, _ output: OutputFile) throws(SigningError) -> SignedFile {
        let prefix = try file.prefix(Envelope.maximumLength)
        let old = try bundleChecked { () throws(BundleError) in try Envelope(parsingPrefix: prefix) }
        guard file.size == old.bundleLength else {
            throw .refused(
                .malformedBundle,
                context: "the bundle has \(file.size) bytes; its envelope requires \(old.bundleLength)")
        }
        if let field = old.manifest.unknownCriticalFields.first {
            throw .refused(
                .unknownCriticalField, context: "the manifest contains the unknown critical \(field.label)")
        }
        try check(signing: old.signatures.map(\.keyID))
        let envelope = try envelope(old.manifest, beside: old.signatures, signature: signature(over: old.manifest))

        let copy = HashingCopy(to: output, after: envelope)
        try file.forEachPiece(in: UInt64(old.length)..<file.size, copy.append)
        guard copy.finish() == old.manifest.imageDigest else {
            throw .refused(.digestMismatch, context: "the digest of the image does not match the signed manifest")
        }
        return try finish(envelope, nil, output)
    }

    private func finish(
        _ envelope: Envelope, _ image: FirmwareDescription?, _ output: OutputFile
    ) throws(SigningError) -> SignedFile {
        try envelope.bytes.withUnsafeBufferPointer { (bytes) throws(SigningError) in
            try output.write(UnsafeRawBufferPointer(bytes), at: 0)
        }
        try output.commit()
        return SignedFile(path: output.path, envelope: envelope, image: image)
    }

    /// Returns an envelope with the manifest, the existing signatures and one new signature for each key of this signer.
    ///
    /// - Parameters:
    ///   - signatures: the existing signatures of the bundle.
    ///   - signature: returns the signature that a key creates (64 bytes).
    private func envelope(
        _ manifest: Manifest, beside signatures: [BundleSignature] = [],
        signature: (any Signer) throws(SigningError) -> [UInt8]
    ) throws(SigningError) -> Envelope {
        var signatures = signatures
        for key in keys {
            let made = BundleSignature(keyID: key.publicKey.id, signature: try signature(key))
            guard let made else { throw .key(KeyError(.cryptography, "the signature does not have 64 bytes")) }
            signatures.append(made)
        }
        return try bundleChecked { () throws(BundleError) in try Envelope(manifest: manifest, signatures: signatures) }
    }

    private func signature(over manifest: Manifest) -> (any Signer) throws(SigningError) -> [UInt8] {
        { (key) throws(SigningError) in
            do throws(KeyError) {
                return try key.imageSigner.verifiedSignature(of: manifest.bytes)
            } catch {
                throw .key(error)
            }
        }
    }

    /// Checks that all keys of this signer can sign a bundle. A key can sign a bundle only once. A bundle can have at most four signatures.
    ///
    /// - Parameter signers: the IDs of the keys that have already signed the bundle. The list is empty for a new bundle.
    /// - Throws: `already-signed` if a key of this signer is in `signers` or was given twice; `too-many-signatures`.
    private func check(signing signers: [KeyID]) throws(SigningError) {
        var ids = Set(signers)
        for key in keys where !ids.insert(key.publicKey.id).inserted {
            let id = key.publicKey.id
            guard signers.contains(id) else {
                throw .refused(
                    .alreadySigned, context: "the key \(id) was given twice; a key can sign a bundle only once",
                    hint: "give --key once for each key")
            }
            throw .refused(
                .alreadySigned, context: "the key \(id) has already signed this bundle; a key can sign only once")
        }
        guard ids.count <= 4 else {
            throw .refused(
                .tooManySignatures, context: "the bundle would have \(ids.count) signatures; the limit is 4")
        }
    }
}

/// The path and the contents of a new bundle. ``BundleSigner`` returns this value.
public struct SignedFile: Sendable {
    public let path: FilePath
    public let envelope: Envelope
    /// The SHA-256 of the manifest. This digest identifies the release.
    public let manifestDigest: SHA256Digest
    /// The description of the signed image. The value is nil if the input was a bundle.
    public let image: FirmwareDescription?

    init(path: FilePath, envelope: Envelope, image: FirmwareDescription?) {
        self.path = path
        self.envelope = envelope
        self.image = image
        manifestDigest = SHA256.digest(of: envelope.manifestBytes)
    }
}

/// The values of a manifest, except the format and the digest of the image. The length of the manifest depends only on these values.
private struct ManifestDraft {
    private let release: Release
    private let product: ProductName
    private let version: SemanticVersion
    private let imageSize: UInt32
    private let created: UInt64

    /// Reads the product and the version from `release`. If `release` does not contain a value, this initializer reads the value from
    /// `image`.
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

    /// Returns a manifest with placeholders for the format and the digest. The length is the same as the length of the final manifest.
    func placeholder() throws(SigningError) -> Manifest {
        try manifest(format: .raw, digest: SHA256.digest(of: []))
    }
}

/// Writes an image to the output file and computes the SHA-256 of the written bytes. The image starts after the space for the envelope.
private final class HashingCopy {
    private let output: OutputFile
    private var offset: UInt64
    private let hash = SHA256()

    init(to output: OutputFile, after envelope: Envelope) {
        self.output = output
        offset = UInt64(envelope.length)
    }

    func append(_ piece: UnsafeRawBufferPointer) throws(SigningError) {
        hash.update(piece)
        try output.write(piece, at: offset)
        offset += UInt64(piece.count)
    }

    /// Returns the digest of all written bytes. Call this method once, after the last `append(_:)`.
    func finish() -> SHA256Digest { hash.finish() }
}
