internal import OTAFirmware
public import SystemPackage

/// Makes bundles of image files, in one pass and in little memory: the image is copied while it is hashed, behind the
/// space for the envelope, which is written when all is known.
public struct BundleSigner: Sendable {
    private let keys: [PrivateKey]

    /// - Throws: `key-required`; `already-signed` for one key twice; `too-many-signatures` for more than four.
    public init(keys: [PrivateKey]) throws(SigningError) {
        guard !keys.isEmpty else {
            throw .refused(.keyRequired, context: "no key to sign with", hint: "give --key FILE")
        }
        self.keys = keys
        try check(signing: [])
    }

    /// Signs the image in a file, or gives the bundle in it more signatures, all else in it unchanged.
    ///
    /// - Parameters:
    ///   - input: an image, Intel HEX text of one, or a bundle.
    ///   - release: what is to be said of an image; of a bundle, nothing.
    ///   - created: Unix seconds; not looked at for a bundle. The same one gives the same bundle, byte for byte.
    ///   - output: where the bundle appears, complete or not at all.
    ///   - replace: a file that is there already is replaced, in one step. It may be the input.
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
        // The envelope's length, and so product and version, has to be known before the image is written: an image
        // that has to be asked for them is read once more.
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

    /// The manifest with the signatures there are and one by each key.
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

    /// Refuses keys that cannot sign where these have signed already.
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
