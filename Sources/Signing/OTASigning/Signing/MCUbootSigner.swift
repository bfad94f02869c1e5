public import OTAFirmware
public import SystemPackage

/// Creates signed MCUboot images from linked binaries. The images have the format of imgtool 2.5.0, MCUboot's signing tool.
///
/// With an Ed25519 key, the image is identical to the output of imgtool. With an ECDSA or RSA key, the signature contains random values.
/// Therefore each run of this signer, and each run of imgtool, creates different bytes.
public struct MCUbootSigner: Sendable {
    /// The data that the signature covers.
    public enum Scheme: Sendable {
        /// The signature covers the image's SHA-256.
        case digest
        /// The signature covers the image's SHA-512. Only Ed25519 keys support this scheme.
        case sha512
        /// The signature covers the image's bytes instead of a digest. The image also contains a SHA-512 digest. Only Ed25519 keys support
        /// this scheme.
        case pure

        /// Returns the digest of `bytes` as a TLV.
        fileprivate func digest(of bytes: [UInt8]) -> MCUbootTLV {
            switch self {
            case .digest: MCUbootTLV(type: MCUbootTLV.sha256, value: SHA256.digest(of: bytes).bytes)
            case .sha512, .pure:
                MCUbootTLV(type: MCUbootTLV.sha512, value: MessageDigest.sha512.digest(of: bytes[...]))
            }
        }
    }

    private let key: any ImageSigner
    private let scheme: Scheme

    /// Creates a signer with an Ed25519 key.
    ///
    /// - Throws: `wrong-algorithm` for an ML-DSA key.
    public init(key: any Signer, scheme: Scheme = .digest) throws(SigningError) {
        do throws(KeyError) { self.key = try key.imageSigner() } catch { throw .key(error) }
        self.scheme = scheme
    }

    /// Creates a signer with an Ed25519, ECDSA or RSA key.
    ///
    /// - Throws: `wrong-algorithm` for an ML-DSA key, and for the scheme `sha512` or `pure` with a key other than Ed25519 (imgtool 2.5.0,
    ///   `ALLOWED_KEY_SHA` in `image.py`).
    public init(key: any ImageSigner, scheme: Scheme = .digest) throws(SigningError) {
        let algorithm = key.publicKey.algorithm
        do throws(KeyError) { try key.publicKey.expectForImages() } catch { throw .key(error) }
        guard scheme == .digest || algorithm == .ed25519 else {
            let option = scheme == .pure ? "--pure" : "--sha 512"
            throw .key(
                KeyError(
                    .wrongAlgorithm, "the key is for \(algorithm.name); \(option) requires Ed25519",
                    hint: "remove \(option): \(algorithm.name) signs the image's SHA-256"))
        }
        self.key = key
        self.scheme = scheme
    }

    /// Signs the binary in a file and writes the MCUboot image.
    ///
    /// - Parameters:
    ///   - input: the path of a linked binary (up to 256 MiB) or of hex text (up to 256 MiB of text).
    ///   - layout: the version and the layout of the new image.
    ///   - output: the path of the new image. A failed call does not leave an incomplete file at this path.
    ///   - replace: whether the new image may replace an existing file at `output`. The replacement is atomic. `output` may be the same
    ///     path as `input`.
    /// - Returns: the new image. As a check, the signer parses the image before it writes the file.
    public func sign(
        _ input: FilePath, as layout: MCUbootLayout, to output: FilePath, replace: Bool = false
    ) throws(SigningError) -> MCUbootFile {
        try sign(InputFile(input), as: layout, to: OutputFile(output, replaces: replace))
    }

    /// Signs like `sign(_:as:to:replace:)`, but from an open input to an open output. The input and the output can also be streams.
    ///
    /// - Parameters:
    ///   - isRaw: true if the file's bytes are the binary, also if they are hex text or not firmware.
    ///   - note: receives remarks about the input for the user.
    package func sign(
        _ file: InputFile, as layout: MCUbootLayout, isRaw: Bool = false, to output: OutputFile,
        note: (String) -> Void = { _ in }
    ) throws(SigningError) -> MCUbootFile {
        let image = try sign(Self.program(in: file, isRaw, note), as: layout)
        let made = try imageChecked { () throws(ImageError) in try MCUbootFile(parsing: image) }
        try image.withUnsafeBufferPointer { (bytes) throws(SigningError) in
            try output.write(UnsafeRawBufferPointer(bytes), at: 0)
        }
        try output.commit()
        return made
    }

    /// Creates an MCUboot image from a linked binary, signs the image, and returns the image's bytes.
    ///
    /// - Throws: `header-not-empty`, `slot-too-small`; the errors of the key; `signer-protocol` for an invalid signature.
    public func sign(_ program: [UInt8], as layout: MCUbootLayout) throws(SigningError) -> [UInt8] {
        var draft = try Self.draft(of: program, layout)
        draft.close(with: try tlvs(for: draft.bytes))
        if let slotSize = layout.slotSize {
            let needed = UInt64(draft.bytes.count) + layout.trailerSize
            guard needed <= slotSize else {
                throw .refused(
                    .slotTooSmall,
                    context:
                        "the image needs \(draft.bytes.count) bytes and the bootloader's trailer \(layout.trailerSize); "
                        + "the slot has \(slotSize)")
            }
        }
        draft.fillSlot()
        return draft.bytes
    }

    /// Returns the bytes that a key on another machine must sign. This method needs no key and does not create an image file.
    ///
    /// With the scheme `pure`, the result is the signed part of the image. With the other schemes, the result is the digest of the signed
    /// part. An Ed25519 key signs the result as a message. For an ECDSA or RSA key, the result is already the SHA-256 digest that these
    /// algorithms sign. The signing program must not compute a second digest.
    ///
    /// This method does not check that the image fits into the slot, because the length of the signature is not yet known.
    ///
    /// - Throws: the errors of `sign`, except the errors of keys and of the output.
    package static func bytesToSign(
        _ file: InputFile, as layout: MCUbootLayout, scheme: Scheme, isRaw: Bool = false,
        note: (String) -> Void = { _ in }
    ) throws(SigningError) -> [UInt8] {
        let signed = try draft(of: program(in: file, isRaw, note), layout).bytes
        return scheme == .pure ? signed : scheme.digest(of: signed).value
    }

    /// Creates the part of the image that the digest and the signature cover.
    private static func draft(of program: [UInt8], _ layout: MCUbootLayout) throws(SigningError) -> MCUbootDraft {
        if !layout.padsHeader { try checkRoom(for: layout.headerSize, in: program) }
        return MCUbootDraft(program, layout)
    }

    private func tlvs(for signed: [UInt8]) throws(SigningError) -> [MCUbootTLV] {
        let digest = scheme.digest(of: signed)
        let keyHash = scheme.digest(of: key.publicKey.encoded).value
        let pure = scheme == .pure ? [MCUbootTLV(type: MCUbootTLV.pureSignature, value: [1])] : []
        guard let type = key.publicKey.algorithm.signatureType else {
            preconditionFailure("the initializer accepts only algorithms of MCUboot")
        }
        return [digest] + pure + [
            MCUbootTLV(type: MCUbootTLV.keyHash, value: keyHash),
            MCUbootTLV(type: type, value: try signature(over: signed, digest: digest.value)),
        ]
    }

    private func signature(over signed: [UInt8], digest: [UInt8]) throws(SigningError) -> [UInt8] {
        do throws(KeyError) {
            let isDigestSigned = key.publicKey.algorithm == .ed25519 && scheme != .pure
            return try key.verifiedSignature(of: isDigestSigned ? digest : signed)
        } catch {
            throw .key(error)
        }
    }

    private static func program(
        in file: InputFile, _ isRaw: Bool, _ note: (String) -> Void
    ) throws(SigningError) -> [UInt8] {
        guard let source = try ImageSource.image(in: file, isRaw: isRaw, note: note) else {
            throw .refused(
                .alreadyABundle, context: "the file is a bundle", hint: "sign the linked binary")
        }
        guard source.size <= maximumLength else {
            throw .refused(
                .imageTooLarge,
                context: "the binary has \(source.size) bytes; the limit is \(maximumLength)")
        }
        var program: [UInt8] = []
        program.reserveCapacity(Int(source.size))
        _ = try source.inspect(as: .raw) { program.append(contentsOf: $0) }
        guard !program.starts(with: MCUbootImage.magic) else {
            throw .refused(.alreadyAnImage, context: "the file is already an MCUboot image")
        }
        if !isRaw, let refusal = FirmwareFileKind.detect(file: program).refusal { throw .image(refusal) }
        return program
    }

    /// The maximum length of a binary, in bytes. The limit exists because the signer holds the whole binary in memory.
    private static let maximumLength = 256 << 20

    private static func checkRoom(for headerSize: UInt16, in program: [UInt8]) throws(SigningError) {
        guard program.count >= headerSize, program.prefix(Int(headerSize)).allSatisfy({ $0 == 0 }) else {
            throw .refused(
                .headerNotEmpty,
                context: "the binary does not start with \(headerSize) zero bytes, which the header replaces")
        }
    }
}
