import ArgumentParser
import OTAArchive
import OTAClient
import OTAFirmware
import OTASigning
import SystemPackage

/// The command `inspect`, which shows the contents of a file and the result of its verification.
struct Inspect: Command {
    static let name = "inspect"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Show every field of a bundle, an image or a key.",
        discussion: """
            Example: otaflash inspect app.bin.otaf
                     otaflash inspect app.bin.otaf --base last.otaf

            inspect also reports whether the file is signed by a trusted key. It works without a trusted key, and a file that is \
            not signed is not an error (exit 0).

            With --base, inspect also reports how many bytes push sends if the device accepts a compressed image or a \
            delta.
            """)

    @Argument(
        help: ArgumentHelp(
            "A bundle, an image, a package (dfu_application.zip) or a key (PEM); - for stdin.",
            discussion:
                "An image is raw, ESP-IDF or MCUboot, also as Intel HEX or S-records. A package is a zip for nRF Connect Device "
                + "Manager or for Nordic DFU."),
        completion: .file())
    var file: String

    @Option(
        help: ArgumentHelp(
            "A bundle or an image that devices run now: show the size of the delta from it; repeatable.",
            valueName: "path"),
        completion: .file())
    var base: [String] = []

    @Flag(
        help: ArgumentHelp(
            "Print only the bytes and the id of a key, as C arrays for firmware.",
            discussion:
                "The firmware of a device with the GATT OTA profile contains its trusted keys. Ed25519 and ML-DSA keys."
        ))
    var cArray = false

    @OptionGroup var trust: TrustOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, file: file) }

    func validate() throws {
        guard cArray, options.format == .json else { return }
        throw ValidationError("--c-array prints C, and --format json prints JSON: use one of them.")
    }

    func answer(_ console: Console) throws -> InspectAnswer {
        let bytes = try FileReader.contents(of: file)
        var answer = try describe(bytes, console)
        if cArray, answer.key == nil {
            throw Failure.usage(
                "--c-array is for a key, and \(StandardFile.title(of: file)) is another file",
                hint: "give the public key: otaflash inspect KEY.pub.pem --c-array")
        }
        guard !base.isEmpty else { return answer }
        guard answer.package == nil else {
            throw Failure.usage(
                "--base is for a file that push can send, and \(StandardFile.title(of: file)) is or contains a Nordic DFU package",
                hint: "omit --base")
        }
        guard answer.key == nil, answer.images == nil else {
            throw Failure.usage(
                "--base is for a bundle or an image, and \(StandardFile.title(of: file)) is another file",
                hint: "omit --base; or give a bundle or an image")
        }
        answer.encodings = try encodings(of: bytes, console)
        return answer
    }

    private func describe(_ bytes: [UInt8], _ console: Console) throws -> InspectAnswer {
        switch FirmwareFileKind.detect(file: bytes) {
        case .bundle:
            if let manifest = try? Manifest(parsing: bytes) { return self.manifest(manifest) }
            return try bundle(SignedBundle(parsing: bytes), console)
        case .hexText(let format):
            let image = try HexImage(parsing: bytes, as: format)
            var answer = try self.image(image.bytes, console)
            answer.container = "\(format.name), \(bytes.count) bytes of text"
            if let note = image.gapNote { answer.image?.add(note: note) }
            return answer
        case .pem: return try key(in: bytes)
        // `detect(prefix:)` finds a key only at the start of the file, but a PEM file can contain text before the key.
        case .foreign where Self.isPEM(bytes): return try key(in: bytes)
        case .binary, .elf, .uf2, .foreign: return try image(bytes, console)
        case .zip:
            if let package = try NordicArchive.package(in: bytes) { return try self.package(package, console) }
            let images = try ImagePackage.images(in: bytes)
            return try package(.images(images), images, console)
        }
    }

    /// Encodes the image of a file as `push` does: once without a base, and once with each base that the user gave.
    private func encodings(of file: [UInt8], _ console: Console) throws -> [EncodingSummary] {
        let image = try Self.image(in: file, named: self.file)
        return try [EncodingSummary(image)]
            + base.map { name in
                let bytes: [UInt8]
                do {
                    let base = try FileReader.contents(of: name)
                    bytes = try Self.image(in: base, named: name)
                    noteOtherProduct(of: base, named: name, than: file, console)
                } catch {
                    var failure = Failure(error, in: Invocation(command: Self.name, file: name))
                    failure.message = "the base cannot be used: \(failure.message)"
                    throw failure
                }
                return try EncodingSummary(image, base: (StandardFile.title(of: name), bytes))
            }
    }

    /// - Throws: the errors of `BaseImages.image(in:)`; `Failure` if the image in a bundle does not match the manifest.
    private static func image(in file: [UInt8], named name: String) throws -> [UInt8] {
        do {
            return try BaseImages.image(in: file)
        } catch let error as VerificationError {
            throw Failure(
                error.code.rawValue, .malformed,
                "the image of \(StandardFile.title(of: name)) is damaged: it does not match the manifest",
                hint: "fetch it again from its source")
        }
    }

    /// Prints a note if the base and the file are bundles of different products. A device never runs an image of another product, so no
    /// push uses such a base.
    private func noteOtherProduct(of base: [UInt8], named name: String, than file: [UInt8], _ console: Console) {
        guard let other = try? Envelope(parsingPrefix: base).manifest.product,
            let product = try? Envelope(parsingPrefix: file).manifest.product, other != product
        else { return }
        let title = StandardFile.title(of: name)
        console.note("the base \(title) is for the product \(other), the bundle is for \(product)")
    }

    /// Describes a file that contains only a manifest, so that a signer sees what the signature is for. For such a file, `detect(prefix:)`
    /// returns `bundle`, because a bundle begins with its manifest.
    private func manifest(_ manifest: Manifest) -> InspectAnswer {
        var answer = InspectAnswer(file: StandardFile.title(of: file))
        answer.container = "manifest without signatures, as sign --to-sign writes it"
        answer.bundle = BundleSummary(manifest)
        let sign = "otaflash sign \(file == StandardFile.name ? "FILE" : Shell.quoted(file)) --key KEY.pem"
        answer.refuse("the manifest has no signature; to sign it: \(sign)")
        return answer
    }

    private func bundle(_ signed: SignedBundle, _ console: Console) throws -> InspectAnswer {
        var answer = InspectAnswer(file: StandardFile.title(of: file))
        let (verifier, missing) = try imageVerifier(console)
        if let missing {
            answer.bundle = BundleSummary(signed.envelope)
            answer.refuse(missing)
        } else {
            verify(signed, verifier, &answer)
        }
        guard signed.envelope.manifest.imageFormat != .nordicDFU else {
            do {
                let package = try NordicArchive.package(of: signed)
                answer.package = NordicSummary(package, verifier.report(on: package), isInBundle: true)
            } catch let error as PackageError {
                console.note("the package in the bundle is malformed: \(error.context)")
            } catch let error as ZipError {
                console.note("the package in the bundle is malformed: \(error.context)")
            }
            return answer
        }
        do throws(ImageError) {
            let image = try FirmwareInspector.inspect(signed.image) { SHA256() }
            if image.format != .raw { answer.image = ImageSummary(signed.image, image) }
        } catch {
            console.note("the image in the bundle is malformed: \(error.description)")
        }
        return answer
    }

    private func verify(_ signed: SignedBundle, _ verifier: Verifier, _ answer: inout InspectAnswer) {
        answer.bundle = BundleSummary(signed.envelope, reports: verifier.report(on: signed.envelope))
        do throws(VerificationError) {
            let verified = try verifier.verify(signed)
            answer.accept("signed by " + verified.signers.map(\.description).joined(separator: ", "), trust)
        } catch {
            answer.refuse(error.context)
        }
    }

    private func image(_ bytes: [UInt8], _ console: Console) throws -> InspectAnswer {
        var answer = InspectAnswer(file: StandardFile.title(of: file))
        let description = try FirmwareInspector.inspect(bytes) { SHA256() }
        guard description.format == .mcuboot else {
            answer.image = ImageSummary(bytes, description)
            answer.verdict = "Not verified: this image format has no signature that otaflash can check."
            return answer
        }
        try verify(MCUbootFile(parsing: bytes), console, &answer)
        return answer
    }

    private func verify(_ image: MCUbootFile, _ console: Console, _ answer: inout InspectAnswer) throws(KeyError) {
        let (verifier, missing) = try imageVerifier(console)
        answer.image = ImageSummary(image, verifier.report(on: image))
        do throws(VerificationError) {
            guard case .signature(let signer) = try verifier.verify(image).authorization else { return }
            answer.accept("signed by \(signer)", trust)
        } catch {
            answer.refuse(error.code == .untrustedKey ? missing ?? error.context : error.context)
        }
    }

    private func package(_ update: UpdateFile, _ images: [NumberedFile], _ console: Console) throws(KeyError)
        -> InspectAnswer
    {
        let (verifier, missing) = try imageVerifier(console)
        var answer = InspectAnswer(file: StandardFile.title(of: file))
        answer.container = "package of \(images.count) image\(images.count == 1 ? "" : "s")"
        answer.images = images.map { PackagedImage($0, verifier.report(on: $0.file)) }
        do throws(VerificationError) {
            _ = try update.verified(by: verifier)
            answer.accept("all images are signed by trusted keys", trust)
        } catch {
            answer.refuse(error.code == .untrustedKey ? missing ?? error.context : error.context)
        }
        return answer
    }

    private func package(_ package: NordicPackage, _ console: Console) throws(KeyError) -> InspectAnswer {
        let (verifier, missing) = try imageVerifier(console)
        var answer = InspectAnswer(file: StandardFile.title(of: file))
        let reports = verifier.report(on: package)
        let summary = NordicSummary(package, reports, isInBundle: false)
        answer.container = summary.container
        answer.package = summary
        do throws(VerificationError) {
            let signers = Set(try verifier.verify(package, reports).signers).sorted()
            answer.accept("signed by " + signers.map(\.description).joined(separator: ", "), trust)
        } catch {
            answer.refuse(error.code == .untrustedKey ? missing ?? error.context : error.context)
        }
        return answer
    }

    /// Returns the verifier with the trusted keys. If no key is trusted, returns a verifier without keys, and the reason as `missing`. A
    /// missing trusted key is not an error here, because `inspect` works without trusted keys.
    private func imageVerifier(_ console: Console) throws(KeyError) -> (Verifier, missing: String?) {
        do throws(KeyError) {
            return (Verifier(trust: try trust.store(console)), nil)
        } catch {
            guard error.code == .noTrustedKey else { throw error }
            return (Verifier(trust: try TrustStore([])), error.context)
        }
    }

    private func publicHalf(of privateKey: [UInt8]) throws(KeyError) -> ImagePublicKey {
        do {
            return try ImagePublicKey(ofPrivateKey: SecretBytes(copying: privateKey))
        } catch {
            guard error.code == .passphraseRequired else {
                throw error.at(StandardFile.title(of: file))
            }
            throw KeyError(
                error.code, "\(StandardFile.title(of: file)): the id of an encrypted private key cannot be read",
                hint: "inspect the public key of the pair instead: otaflash inspect NAME.pub.pem")
        }
    }

    private func publicKey(in bytes: [UInt8]) throws(KeyError) -> ImagePublicKey {
        do throws(KeyError) { return try ImagePublicKey(pem: SecretBytes(copying: bytes)) } catch {
            throw error.at(StandardFile.title(of: file))
        }
    }

    /// Returns true if the file is text of at most 64 KiB, and a PEM block begins at the start of a line.
    ///
    /// Without the check for text, this function would also return true for an image that contains a certificate.
    private static func isPEM(_ bytes: [UInt8]) -> Bool {
        guard bytes.count <= 64 << 10, let text = String(validating: bytes, as: UTF8.self) else { return false }
        let isText = text.unicodeScalars.allSatisfy {
            "\t\r\n".unicodeScalars.contains($0) || $0.properties.generalCategory != .control
        }
        return isText && text.split(whereSeparator: \.isNewline).contains { $0.hasPrefix("-----BEGIN ") }
    }

    private func key(in bytes: [UInt8]) throws -> InspectAnswer {
        var answer = InspectAnswer(file: StandardFile.title(of: file))
        let isPrivate = String(decoding: bytes, as: UTF8.self).contains("PRIVATE KEY-----")
        let key = isPrivate ? try publicHalf(of: bytes) : try publicKey(in: bytes)
        let id = key.id
        let note: String? =
            switch (key.bundleKey, key.isForImages) {
            case (nil, _): "the key is for MCUboot images only: bundles require Ed25519 or ML-DSA"
            case (_, false): "the key is for bundles only: MCUboot does not support ML-DSA"
            case (_, true): nil
            }
        answer.key = .init(
            keyID: id.description, kind: isPrivate ? "private" : "public", algorithm: key.algorithm.name,
            keyHash: key.isForImages ? Hex.encode(SHA256.digest(of: key.encoded).bytes) : nil,
            demo: id == DemoKey.id, note: note)
        if cArray { answer.array = try KeyArray(key, of: answer.file) }
        return answer
    }
}

/// The result of the command `inspect`.
struct InspectAnswer: CommandAnswer {
    struct Key: Encodable, Sendable {
        let keyID, kind: String
        /// The algorithm of the key, such as `Ed25519`, `ECDSA P-256`, `RSA-2048` or `ML-DSA-65`.
        let algorithm: String
        /// The SHA-256 digest of the public key in DER, as hex digits. The KEYHASH TLV of an MCUboot image contains this digest or, only
        /// for an Ed25519 key, the SHA-512 of the same bytes. Nil for an ML-DSA key, which MCUboot does not support.
        let keyHash: String?
        /// True for the demo key, whose private key is public.
        let demo: Bool
        /// The only kind of file that the key signs; nil for an Ed25519 key, which signs both kinds.
        let note: String?

        private enum CodingKeys: CodingKey { case keyID, kind, algorithm, keyHash, demo }
    }
    let file: String
    var bundle: BundleSummary?
    var image: ImageSummary?
    var images: [PackagedImage]?
    /// The contents of a Nordic DFU package; nil for other files.
    var package: NordicSummary?
    var key: Key?
    /// True if the verification succeeded, false if it failed. Nil if the file is not a bundle, an MCUboot image or a package: otaflash
    /// cannot verify other files.
    var verified: Bool?
    /// The reason for a failed verification; nil if `verified` is not false.
    var reason: String?
    var verdict: String?
    /// The format of the file that contains the image (Intel HEX or a package), as text for the user. Nil for other files.
    var container: String?
    /// The encoded forms of the image; nil without `--base`.
    var encodings: [EncodingSummary]?
    /// The key as C source text; nil without `--c-array`.
    var array: KeyArray?

    init(file: String) { self.file = file }

    private enum CodingKeys: CodingKey {
        case bundle, image, images, package, key, verified, reason, encodings
    }

    mutating func accept(_ proof: String, _ trust: TrustOptions) {
        verified = true
        verdict = "Verified against \(trust.paths.map(\.string).joined(separator: ", ")): \(proof)."
    }

    mutating func refuse(_ reason: String) {
        verified = false
        self.reason = reason
        verdict = "Not verified: \(reason)."
    }

    var lines: [TerminalLine] {
        if let array { return array.lines }
        var rows = [("File", file)]
        if let container { rows.append(("Container", container)) }
        if let bundle { rows += bundle.rows }
        if let image { rows += bundle == nil ? image.rows : image.rows.dropFirst(2).map { ("Image: \($0.0)", $0.1) } }
        for image in images ?? [] { rows += image.rows }
        if let package { rows += bundle == nil ? package.rows : package.rows.map { ("Package: \($0.0)", $0.1) } }
        for encoding in encodings ?? [] { rows.append(encoding.row) }
        if let key {
            let demo = key.demo ? "; the demo key: its private key is public" : ""
            rows.append(("Key", "\(key.algorithm), \(key.kind)\(demo)"))
            rows.append(("Key id", key.keyID))
            if let hash = key.keyHash { rows.append(("MCUboot key hash", hash)) }
            if let note = key.note { rows.append(("Note", note)) }
        }
        return TextTable.pairs(rows) + (verdict.map { ["", TerminalLine($0)] } ?? [])
    }
}
