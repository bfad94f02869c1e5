internal import OTAFirmware
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
            throw .refused(.keyRequired, context: "no key to sign with", hint: "give --key FILE")
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
        let file = try InputFile(input)
        let output = try OutputFile(output, replaces: replace)
        switch FirmwareFileKind.detect(prefix: try file.prefix(FirmwareFileKind.prefixLength)) {
        case .bundle:
            guard release == Release() else {
                throw .refused(
                    .alreadyABundle, context: "\(input): a bundle; it can get a signature more, and no other change",
                    hint: "give --key alone, or the image that the bundle was made of")
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
        let copy = HashingCopy(to: output, behind: space)
        let image = try source.inspect(as: release.format, copy.take)
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
                .malformedBundle, context: "a bundle of \(file.size) bytes that should have \(old.bundleLength)")
        }
        if let field = old.manifest.unknownCriticalFields.first {
            throw .refused(
                .unknownCriticalField, context: "nobody can vouch for what is not known here: \(field.label)")
        }
        try check(signing: old.signatures.map(\.keyID))
        let envelope = try envelope(old.manifest, beside: old.signatures, signature: signature(over: old.manifest))

        let copy = HashingCopy(to: output, behind: envelope)
        try file.forEachPiece(in: UInt64(old.length)..<file.size, copy.take)
        guard copy.finish() == old.manifest.imageDigest else {
            throw .refused(.digestMismatch, context: "the image in the bundle is not the one that was signed")
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
            guard let made else { throw .key(KeyError(.cryptography, "a signature that has not 64 bytes")) }
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
                    .alreadySigned, context: "the key \(id) is given twice, and can sign once",
                    hint: "give --key once for each key")
            }
            throw .refused(.alreadySigned, context: "the key \(id) has signed this bundle, and can sign once")
        }
        guard ids.count <= 4 else {
            throw .refused(
                .tooManySignatures, context: "a bundle has at most four signatures, and these would be \(ids.count)")
        }
    }
}
