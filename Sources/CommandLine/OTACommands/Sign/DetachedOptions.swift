import ArgumentParser
import OTAFirmware
import OTASigning
import SystemPackage

/// The options for a private key that is on another machine.
struct DetachedOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Write only the bytes that the key must sign; - for stdout. Give all other options, but no --key.",
            valueName: "file"),
        completion: .file())
    var toSign: String?

    @Option(
        help: ArgumentHelp(
            "The file of --to-sign. Required for a new bundle.",
            discussion: "It becomes the manifest of the new bundle. Only with --signature.", valueName: "file"),
        completion: .file())
    var manifest: String?

    @Option(
        help: ArgumentHelp(
            "A signature of the bytes of --to-sign, in raw bytes, hex or Base64; repeatable.",
            discussion: "Requires --public-key.", valueName: "file"),
        completion: .file())
    var signature: [String] = []

    @Option(
        help: ArgumentHelp(
            "The public key of a signature (example: release.pub.pem); repeatable, in any order.", valueName: "file"),
        completion: .file())
    var publicKey: [String] = []

    /// True if the command attaches existing signatures instead of signing with a key.
    var attaches: Bool { manifest != nil || !signature.isEmpty || !publicKey.isEmpty }

    /// Checks these options in combination with each other and with the other options of `sign`.
    ///
    /// - Throws: a usage failure for options that cannot be used together, or for a missing option.
    func check(_ sign: Sign) throws(Failure) {
        guard toSign != nil || attaches else { return }
        let mode = toSign == nil ? "--signature" : "--to-sign"
        let others = [
            ("--key", !sign.key.isEmpty), ("--passphrase-fd", sign.passphrase.passphraseFd != nil),
            ("--passphrase-env", sign.passphrase.passphraseEnv != nil),
            ("--pin-fd", sign.pin.pinFd != nil), ("--pin-env", sign.pin.pinEnv != nil),
            ("-o", toSign != nil && sign.output != nil), ("--manifest", toSign != nil && manifest != nil),
            ("--signature", toSign != nil && !signature.isEmpty),
            ("--public-key", toSign != nil && !publicKey.isEmpty),
        ]
        if let (name, _) = others.first(where: \.1) {
            throw Failure.usage("\(name) cannot be used together with \(mode)", hint: "remove \(name), or \(mode)")
        }
        guard toSign == nil else { return }
        guard !signature.isEmpty else {
            let name = manifest == nil ? "--public-key" : "--manifest"
            throw Failure.usage(
                "\(name) requires a signature",
                hint: "add --signature FILE; to create the bytes to sign: --to-sign FILE")
        }
        guard !publicKey.isEmpty else {
            throw Failure.usage(
                "--signature requires the public key of the signer", hint: "add --public-key KEY.pub.pem")
        }
        for (option, path) in [manifest].compactMap(\.self).map({ ("--manifest", $0) })
            + signature.map({ ("--signature", $0) }) + publicKey.map({ ("--public-key", $0) })
        {
            try StandardFile.refuse(
                path, "\(option) must be a file, not standard input", hint: "give the name of a file: \(option) FILE")
        }
        switch sign.kind {
        case .mcuboot: try checkForImage()
        case .bundle: try checkForBundle(sign)
        }
    }

    private func checkForImage() throws(Failure) {
        guard manifest == nil else {
            throw Failure.usage(
                "--manifest is for bundles: an MCUboot image has no manifest",
                hint: "remove --manifest, or --as mcuboot")
        }
        guard signature.count == 1, publicKey.count == 1 else {
            throw Failure.usage(
                "an MCUboot image has exactly one signature", hint: "give --signature and --public-key once")
        }
    }

    private func checkForBundle(_ sign: Sign) throws(Failure) {
        guard manifest != nil else { return }
        let release = sign.bundleOptions + (sign.version == nil ? [] : ["--version"])
        if let name = release.first {
            throw Failure.usage(
                "\(name) cannot be used together with --manifest, because the manifest contains the value",
                hint: "remove \(name); or create another manifest with --to-sign, and sign that one")
        }
    }

    /// Checks that the output does not replace the manifest or a signature that the command reads.
    ///
    /// - Throws: `output-exists`.
    func refuseToReplace(_ output: String) throws(Failure) {
        for path in [manifest].compactMap(\.self) + signature where FileReader.isSameFile(output, path) {
            throw Failure(
                "output-exists", .cannotCreate, "\(output) is an input of the command, and sign does not replace it",
                hint: "use another name for the output: -o FILE")
        }
    }

    /// Reads the file of `--manifest`.
    ///
    /// - Throws: the errors of `FileReader`. If the file is not a valid manifest: `Failure` with the code of the `BundleError`.
    func readManifest(at path: String) throws -> Manifest {
        let bytes = try FileReader.contents(of: path)
        do throws(BundleError) {
            return try Manifest(parsing: bytes)
        } catch {
            throw Failure(
                error.code.rawValue, .malformed, "\(path) is not a valid manifest: \(error.description)",
                hint: "give the file that --to-sign wrote: otaflash sign IMAGE --product P --version V --to-sign FILE")
        }
    }

    /// Reads the signatures and their public keys for a bundle.
    ///
    /// - Throws: `KeyError`, such as `signatureUnmatched`; a usage failure for a repeated key; the errors of `FileReader`.
    func signers(of manifest: Manifest) throws -> [any Signer] {
        let keys = try publicKey.map { path in
            let key = try KeyFile.publicKey(at: FilePath(path), option: "--public-key")
            guard let key = key.bundleKey else {
                throw KeyError(
                    .wrongAlgorithm,
                    "\(path): the key is for \(key.algorithm.name); a bundle requires Ed25519 or ML-DSA",
                    hint: "give the key that signed the manifest")
            }
            return key
        }
        if let twice = keys.enumerated().first(where: { keys[..<$0.offset].contains($0.element) }) {
            throw Failure.usage(
                "the public key \(twice.element.id) was given twice", hint: "give --public-key once for each key")
        }
        return try DetachedSigner.signers(signature.map(read), keys: keys, message: manifest.bytes)
    }

    /// Reads the signature and its public key for an MCUboot image. Returns nil if `--signature` or `--public-key` is missing.
    ///
    /// - Throws: `KeyError` for the public key; the errors of `FileReader` for the signature.
    func imageSigner() throws -> (any ImageSigner)? {
        guard let signature = signature.first, let publicKey = publicKey.first else { return nil }
        let key = try KeyFile.publicKey(at: FilePath(publicKey), option: "--public-key")
        return DetachedImageSigner(try read(signature), by: key)
    }

    private func read(_ path: String) throws(Failure) -> DetachedSignature {
        DetachedSignature(try FileReader.contents(of: path), name: path)
    }
}

// MARK: - The command

extension Sign {
    /// Writes the manifest of a new or existing bundle to a file. A key on another machine must sign this manifest.
    func manifest(to path: String, _ console: Console) throws -> SignAnswer {
        let input = try input()
        let earlier = try EarlierReleases(previous: previous, output: target)
        let manifest = try BundleSigner.manifest(
            for: input, named: FilePath(image), as: release(for: input, after: earlier, signedBy: nil),
            created: CreationTime.now(), note: console.note)
        // This step does not replace the bundle at the default path, so only the bundle of --previous is compared.
        if let previous = earlier.previous { try manifest.check(after: previous.envelope.manifest) }
        let answer = try write(manifest.bytes, to: path)
        // Without a key, nothing proves the counter of --previous. A counter that was taken from it is compared with 0.
        let known = previous != nil && counter == nil ? nil : earlier.counter
        warn(ofCounter: manifest.securityCounter, after: known, in: ("bundle", "--counter"), console)
        return answer
    }

    /// Returns the manifest if the input is a file that `--to-sign` wrote; nil for an image or a bundle.
    func unsignedManifest() throws -> Manifest? {
        guard image != StandardFile.name else { return nil }
        let file = try InputFile(FilePath(image))
        guard file.size <= UInt64(Manifest.maximumLength) else { return nil }
        return try? Manifest(parsing: file.prefix(Manifest.maximumLength))
    }

    /// Signs a manifest without its image: writes the signature to a file of its own.
    func signature(of manifest: Manifest, _ console: Console) throws -> SignAnswer {
        if let name = (bundleOptions + (version == nil ? [] : ["--version"])).first {
            throw Failure.usage(
                "\(image) is a manifest, which contains the value of \(name)", hint: "remove \(name)")
        }
        try EarlierReleases(previous: previous).check(manifest)
        let keys = try signers(console)
        guard keys.count == 1, let signature = try BundleSigner(keys: keys).signatures(of: manifest).first else {
            throw Failure.usage("a file has one signature", hint: "give --key once, and sign again with each other key")
        }
        let path = output ?? image + ".sig"
        _ = try write(signature, to: path, option: "-o")
        let title = path == StandardFile.name ? StandardFile.outputTitle : path
        return SignAnswer(signature: title, of: manifest, at: image, by: keys[0].publicKey.id)
    }

    /// Writes the bytes that a key must sign for a new MCUboot image. Without `--pure`, these bytes are the digest. With `--pure`, they are
    /// the header, the body and the protected TLVs.
    func bytesToSign(_ layout: MCUbootLayout, to path: String, _ console: Console) throws -> SignAnswer {
        let bytes = try MCUbootSigner.bytesToSign(
            input(), as: layout, scheme: mcuboot.scheme(), isRaw: raw, note: console.note)
        return try write(bytes, to: path)
    }

    /// Writes bytes that are not a bundle.
    ///
    /// - Parameter option: the option with the path, for a hint.
    private func write(_ bytes: [UInt8], to path: String, option: String = "--to-sign") throws -> SignAnswer {
        if force, EarlierReleases.manifest(ofBundleAt: path) != nil {
            throw Failure(
                "output-exists", .cannotCreate,
                "\(path) is a bundle, and sign does not replace it by another kind of file",
                hint: "use another name for the output: \(option) FILE")
        }
        do {
            let output = try outputFile(at: path)
            try bytes.withUnsafeBytes { try output.write($0, at: 0) }
            try output.commit()
        } catch SigningError.refused(.outputExists, let context, _) {
            throw SigningError.refused(
                .outputExists, context: context,
                hint: "replace it with --force, or choose another path: \(option) FILE")
        }
        return SignAnswer(bytes, to: path == StandardFile.name ? StandardFile.outputTitle : path)
    }

    /// Attaches existing signatures. With `--manifest`, the input is an image, and the result is a new bundle. Without `--manifest`, the
    /// input is a bundle, and the result is the same bundle with more signatures.
    func bundleWithDetachedSignatures(_ console: Console) throws -> SignAnswer {
        let given = try detached.manifest.map { try detached.readManifest(at: $0) }
        let input = try input()
        let manifest = try given ?? manifest(ofBundleIn: input)
        let signers = try detached.signers(of: manifest)
        for signer in signers { Self.warn(ofKey: signer.publicKey.id, console) }
        let earlier = try EarlierReleases(previous: previous, output: target)
        try earlier.check(manifest)
        let signer = try BundleSigner(keys: signers)
        let output = try outputFile(at: target)
        let file =
            given == nil
            ? try signer.sign(input, named: FilePath(image), as: release(), created: 0, to: output)
            : try signer.sign(input, under: manifest, isRaw: raw, to: output, note: console.note)
        warn(ofCounter: manifest.securityCounter, after: earlier.counter, in: ("bundle", "--counter"), console)
        return SignAnswer(file)
    }

    /// Returns the manifest of the bundle to which a signature is added.
    ///
    /// - Throws: a usage failure if the file is an image, because an image requires `--manifest`; the errors of `BundleSigner`.
    private func manifest(ofBundleIn file: InputFile) throws -> Manifest {
        let prefix = try file.prefix(FirmwareFileKind.prefixLength)
        guard FirmwareFileKind.detect(prefix: prefix) == .bundle else {
            throw Failure.usage(
                "--manifest is missing: \(StandardFile.title(of: image)) is an image, and the signature is for a manifest",
                hint: "add the file that --to-sign wrote: --manifest FILE")
        }
        return try BundleSigner.manifest(for: file, named: FilePath(image), as: release(), created: 0)
    }
}
