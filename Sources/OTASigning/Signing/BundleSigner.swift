public import OTAFirmware
public import SystemPackage

/// Creates bundles from image files in one pass and with little memory.
///
/// It leaves space for the envelope at the start of the file, then copies and hashes the image. It writes the envelope last, because the
/// envelope contains the image's digest.
public struct BundleSigner: Sendable {
    private let keys: [PrivateKey]

    /// - Throws: `key-required`; `already-signed` if one key appears twice; `too-many-signatures` for more than four keys.
    public init(keys: [PrivateKey]) throws(SigningError) {
        guard !keys.isEmpty else {
            throw .refused(.keyRequired, context: "no private key was given", hint: "give --key FILE")
        }
        self.keys = keys
        try check(signing: [])
    }

    /// Signs the image in a file, or adds signatures to the bundle in a file and changes nothing else in it.
    ///
    /// - Parameters:
    ///   - input: an image, an image as Intel HEX text, or a bundle.
    ///   - release: the manifest's values for an image. It must be empty for a bundle.
    ///   - created: the creation time in Unix seconds; ignored for a bundle. With the same time, the same image, values and keys give the
    ///     same bundle, byte for byte.
    ///   - output: the path of the new bundle. The file appears complete or not at all.
    ///   - replace: whether to replace an existing file, atomically. That file may be the input.
    public func sign(
        _ input: FilePath, as release: Release = Release(), created: UInt64, to output: FilePath, replace: Bool = false
    ) throws(SigningError) -> SignedFile {
        try sign(
            InputFile(input), named: input, as: release, created: created, to: OutputFile(output, replaces: replace))
    }

    /// Signs a file that is open, or a stream. `sign(_:as:created:to:replace:)` describes the parameters.
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
        // The envelope's length depends on product and version, and must be known before the image is written. If they come from the
        // image, the image is read twice.
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

    /// Returns an envelope with the manifest, the existing signatures and one new signature for each key.
    private func envelope(
        _ manifest: Manifest, beside signatures: [BundleSignature] = [],
        signature: (PrivateKey) throws(SigningError) -> [UInt8]
    ) throws(SigningError) -> Envelope {
        var signatures = signatures
        for key in keys {
            let made = BundleSignature(keyID: key.publicKey.id, signature: try signature(key))
            guard let made else { throw .key(KeyError(.cryptography, "the signature does not have 64 bytes")) }
            signatures.append(made)
        }
        return try bundleChecked { () throws(BundleError) in try Envelope(manifest: manifest, signatures: signatures) }
    }

    private func signature(over manifest: Manifest) -> (PrivateKey) throws(SigningError) -> [UInt8] {
        { (key) throws(SigningError) in
            do throws(KeyError) { return try key.sign(manifest.bytes) } catch { throw .key(error) }
        }
    }

    /// Checks that the keys can sign a bundle that already has signatures by `signers`.
    ///
    /// - Throws: `already-signed`, `too-many-signatures`.
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

/// A bundle that was written to a file.
public struct SignedFile: Sendable {
    public let path: FilePath
    public let envelope: Envelope
    /// The SHA-256 of the manifest, which identifies the release.
    public let manifestDigest: SHA256Digest
    /// The image's description; nil if signatures were added to a bundle.
    public let image: FirmwareDescription?

    init(path: FilePath, envelope: Envelope, image: FirmwareDescription?) {
        self.path = path
        self.envelope = envelope
        self.image = image
        manifestDigest = SHA256.digest(of: envelope.manifestBytes)
    }
}

/// A manifest without the image's format and digest. Its length is already known.
private struct ManifestDraft {
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

    /// Returns a manifest with the final length and placeholders for format and digest.
    func placeholder() throws(SigningError) -> Manifest {
        try manifest(format: .raw, digest: SHA256.digest(of: []))
    }
}

/// Writes an image after the space for its envelope, and hashes exactly the bytes that it writes.
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

    /// Returns the digest. Call it once, as the last call.
    func finish() -> SHA256Digest { hash.finish() }
}
