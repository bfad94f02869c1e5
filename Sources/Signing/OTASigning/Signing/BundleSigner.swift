internal import Dispatch
public import OTAFirmware
public import SystemPackage

/// Creates signed bundles from image files. A binary image is read in pieces and is never completely in memory.
///
/// The envelope is at the start of the output file and contains the digest of the image. The digest is known only after the whole image was
/// read. The signer therefore leaves space for the envelope, copies the image, and computes the digest during the copy. Last, the signer
/// writes the envelope.
public struct BundleSigner: Sendable {
    private let keys: [any Signer]

    /// Creates a signer that adds one signature for each of `keys` to every bundle.
    ///
    /// - Throws: `key-required` if `keys` is empty; `already-signed` if `keys` contains a key twice; `too-many-signatures` for more than
    ///   `Envelope.maximumSignatures` keys.
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
    ///   - input: the path of an image, of hex text, or of a bundle.
    ///   - release: the values for the manifest. If the input is a bundle, all values must be nil, because the manifest of a bundle cannot
    ///     change.
    ///   - created: the creation time in Unix seconds, for the manifest. If the input is a bundle, this time is not used. Two calls with
    ///     the same image, release, keys and time create identical bundles.
    ///   - output: the path of the new bundle. A failed call does not leave an incomplete file at this path.
    ///   - replace: whether the new bundle may replace an existing file at `output`. The replacement is atomic. `output` may be the same
    ///     path as `input`.
    /// - Returns: the path and the envelope of the new bundle, and the description of the image.
    public func sign(
        _ input: FilePath, as release: Release = Release(), created: UInt64, to output: FilePath, replace: Bool = false
    ) throws(SigningError) -> SignedFile {
        try sign(
            InputFile(input), named: input, as: release, created: created, to: OutputFile(output, replaces: replace))
    }

    /// Creates a signed bundle like `sign(_:as:created:to:replace:)`, but from an open input to an open output. The input and the output
    /// can also be streams.
    ///
    /// - Parameters:
    ///   - input: the name of the input in messages.
    ///   - note: receives remarks about the input for the user.
    package func sign(
        _ file: InputFile, named input: FilePath, as release: Release, created: UInt64, to output: OutputFile,
        note: (String) -> Void = { _ in }
    ) throws(SigningError) -> SignedFile {
        if let source = try ImageSource.image(in: file, isRaw: release.format == .raw, note: note) {
            return try sign(source, release, created, output)
        }
        guard release == Release() else { throw Self.alreadyABundle(input) }
        return try addSignatures(to: file, output)
    }

    private func sign(
        _ source: ImageSource, _ release: Release, _ created: UInt64, _ output: OutputFile
    ) throws(SigningError) -> SignedFile {
        // In the bundle, the image starts after the envelope, so the length of the envelope must be known before the copy. This length
        // depends on the product and the version. If `release` does not contain the product or the version, the signer reads the image
        // twice: first to find the missing value, then to copy the image.
        let asked = release.isComplete ? nil : try source.inspect(as: release.format) { _ in }
        let draft = try ManifestDraft(release, of: asked, imageSize: source.size, created: created)
        let space = try envelope(draft.placeholder()) { key in
            [UInt8](repeating: 0, count: key.publicKey.algorithm.signatureLength)
        }
        let copy = HashingCopy(to: output, after: space)
        let image = try source.inspect(as: release.format, copy.append)
        guard asked == nil || asked == image else { throw source.changed }
        try release.check(image)

        let manifest = try draft.manifest(format: image.format, digest: copy.finish())
        return try finish(envelope(manifest, signature: signature(over: manifest)), image, output)
    }

    private func addSignatures(to file: InputFile, _ output: OutputFile) throws(SigningError) -> SignedFile {
        let old = try Self.envelope(of: file)
        try check(signing: old.signatures.map(\.keyID))
        let envelope = try envelope(old.manifest, beside: old.signatures, signature: signature(over: old.manifest))

        let copy = HashingCopy(to: output, after: envelope)
        try file.forEachPiece(in: UInt64(old.length)..<file.size, copy.append)
        guard copy.finish() == old.manifest.imageDigest else { throw Self.digestMismatch }
        return try finish(envelope, nil, output)
    }

    /// Creates a bundle from an image and an existing manifest, and signs the manifest with the keys of this signer. This method does not
    /// change the manifest.
    ///
    /// Use this method if another machine has already signed the manifest. The keys of this signer are then ``DetachedSigner`` values,
    /// which return the existing signatures.
    ///
    /// - Parameters:
    ///   - isRaw: true if the file's bytes are the image, also if they are hex text.
    ///   - note: receives remarks about the input for the user.
    /// - Throws: `already-a-bundle`; `unknown-critical-field`; `digest-mismatch` if the manifest describes another image.
    package func sign(
        _ file: InputFile, under manifest: Manifest, isRaw: Bool = false, to output: OutputFile,
        note: (String) -> Void = { _ in }
    ) throws(SigningError) -> SignedFile {
        guard let source = try ImageSource.image(in: file, isRaw: isRaw, note: note) else {
            throw .refused(
                .alreadyABundle, context: "the file is a bundle, which contains its manifest",
                hint: "remove --manifest, or give the original image")
        }
        try Self.check(manifest)
        let other =
            "sign the image that the manifest was created for, or create a manifest of this image with --to-sign"
        guard source.size == manifest.imageSize else {
            throw .refused(
                .digestMismatch,
                context:
                    "the image has \(source.size) bytes; the manifest is for an image of \(manifest.imageSize) bytes",
                hint: other)
        }
        let envelope = try envelope(manifest, signature: signature(over: manifest))
        let copy = HashingCopy(to: output, after: envelope)
        _ = try source.inspect(as: .raw, copy.append)
        guard copy.finish() == manifest.imageDigest else {
            throw .refused(
                .digestMismatch, context: "the digest of the image does not match the manifest", hint: other)
        }
        return try finish(envelope, nil, output)
    }

    /// Returns the manifest that `sign(_:named:as:created:to:)` would sign for the same parameters. This method needs no keys.
    ///
    /// - Throws: the errors of `sign`, except the errors of keys and of the output.
    package static func manifest(
        for file: InputFile, named input: FilePath, as release: Release, created: UInt64,
        note: (String) -> Void = { _ in }
    ) throws(SigningError) -> Manifest {
        guard let source = try ImageSource.image(in: file, isRaw: release.format == .raw, note: note) else {
            guard release == Release() else { throw alreadyABundle(input) }
            let envelope = try envelope(of: file)
            let hash = SHA256()
            try file.forEachPiece(in: UInt64(envelope.length)..<file.size) { hash.update($0) }
            guard hash.finish() == envelope.manifest.imageDigest else { throw digestMismatch }
            return envelope.manifest
        }
        let hash = SHA256()
        let image = try source.inspect(as: release.format) { hash.update($0) }
        try release.check(image)
        let draft = try ManifestDraft(release, of: image, imageSize: source.size, created: created)
        return try draft.manifest(format: image.format, digest: hash.finish())
    }

    /// Signs a manifest without its image. The signatures are in the order of the keys.
    package func signatures(of manifest: Manifest) throws(SigningError) -> [[UInt8]] {
        try Self.check(manifest)
        let sign = signature(over: manifest)
        return try keys.map { (key) throws(SigningError) in try sign(key) }
    }

    /// Reads the envelope of a bundle. This method does not check the image's digest, so the caller must check the digest.
    ///
    /// - Throws: `malformed-bundle`, `unknown-critical-field`; the errors of `Envelope`.
    private static func envelope(of file: InputFile) throws(SigningError) -> Envelope {
        let prefix = try file.prefix(Envelope.maximumLength)
        let envelope = try bundleChecked { () throws(BundleError) in try Envelope(parsingPrefix: prefix) }
        guard file.size == envelope.bundleLength else {
            throw .refused(
                .malformedBundle,
                context: "the bundle has \(file.size) bytes; its envelope requires \(envelope.bundleLength)")
        }
        try check(envelope.manifest)
        return envelope
    }

    private static func check(_ manifest: Manifest) throws(SigningError) {
        guard let field = manifest.unknownCriticalFields.first else { return }
        throw .refused(.unknownCriticalField, context: "the manifest contains the unknown critical \(field.label)")
    }

    private static func alreadyABundle(_ input: FilePath) -> SigningError {
        .refused(
            .alreadyABundle, context: "\(input): this is a bundle; sign can only add signatures to it",
            hint: "use --key without other values, or sign the original image")
    }

    private static var digestMismatch: SigningError {
        .refused(.digestMismatch, context: "the digest of the image does not match the signed manifest")
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
    ///   - signature: a closure that signs `manifest` with the given key and returns the signature.
    private func envelope(
        _ manifest: Manifest, beside signatures: [BundleSignature] = [],
        signature: (any Signer) throws(SigningError) -> [UInt8]
    ) throws(SigningError) -> Envelope {
        var signatures = signatures
        for key in keys {
            let algorithm = key.publicKey.algorithm
            let made = BundleSignature(algorithm, keyID: key.publicKey.id, signature: try signature(key))
            guard let made else {
                throw .key(
                    KeyError(.cryptography, "the signature does not have \(algorithm.signatureLength) bytes"))
            }
            signatures.append(made)
        }
        return try bundleChecked { () throws(BundleError) in try Envelope(manifest: manifest, signatures: signatures) }
    }

    private func signature(over manifest: Manifest) -> (any Signer) throws(SigningError) -> [UInt8] {
        { (key) throws(SigningError) in
            do throws(KeyError) {
                return try key.verifiedSignature(of: manifest.bytes, in: .bundle)
            } catch {
                throw .key(error)
            }
        }
    }

    /// Checks that each key of this signer can add its signature to a bundle. A key can sign a bundle only once, and a bundle can have at
    /// most `Envelope.maximumSignatures` signatures.
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
        guard ids.count <= Envelope.maximumSignatures else {
            throw .refused(
                .tooManySignatures,
                context: "the bundle would have \(ids.count) signatures; the limit is \(Envelope.maximumSignatures)")
        }
    }
}

/// The path and the envelope of a new bundle. ``BundleSigner`` returns this value.
public struct SignedFile: Sendable {
    public let path: FilePath
    public let envelope: Envelope
    /// The SHA-256 of the manifest. This digest identifies the release.
    public let manifestDigest: SHA256Digest
    /// The description of the signed image. The value is nil if the input was a bundle, or if the caller gave the manifest.
    public let image: FirmwareDescription?

    init(path: FilePath, envelope: Envelope, image: FirmwareDescription?) {
        self.path = path
        self.envelope = envelope
        self.image = image
        manifestDigest = SHA256.digest(of: envelope.manifestBytes)
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

    /// Hashes the piece and writes it at the same time, if the computer has two processors.
    func append(_ piece: UnsafeRawBufferPointer) throws(SigningError) {
        // The two steps share only the bytes of the piece, which they do not change.
        nonisolated(unsafe) let (piece, hash, output) = (piece, hash, output)
        nonisolated(unsafe) var failure: SigningError?
        DispatchQueue.concurrentPerform(iterations: 2) { [offset] step in
            if step == 0 { return hash.update(piece) }
            do throws(SigningError) { try output.write(piece, at: offset) } catch { failure = error }
        }
        if let failure { throw failure }
        offset += UInt64(piece.count)
    }

    /// Returns the digest of the whole image. Call this method once, after the last `append(_:)`.
    func finish() -> SHA256Digest { hash.finish() }
}
