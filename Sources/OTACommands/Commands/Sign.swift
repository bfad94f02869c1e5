import ArgumentParser
import OTAFirmware
import OTASigning
import SystemPackage

struct Sign: Verb {
    static let name = "sign"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Make a signed bundle or MCUboot image, or add a signature to a bundle.",
        discussion: """
            An image is a raw binary, an ESP-IDF application, an MCUboot image or Intel HEX. What an image says of \
            itself, product and version, need not be said again, and may not be contradicted. A bundle in its place \
            gets one signature more for each key, and needs no other option. With --as mcuboot a program becomes an \
            image for MCUboot, the same to the byte as imgtool makes it.
            """)

    @Argument(help: "The image, or a bundle; for --as mcuboot, the program.", completion: .file())
    var image: String

    @Option(name: .customLong("as"), help: "What is made: bundle or mcuboot.")
    var kind: SignedKind = .bundle

    @Option(
        help: ArgumentHelp(
            "The private key to sign with: a file, or env:NAME for a variable that holds the PEM text; up to four.",
            valueName: "key"),
        completion: .file())
    var key: [String]

    @Option(help: "What the image is for: the name that the device gives itself.")
    var product: String?

    @Option(help: "The image's version, as SemVer: 1.4.0; for MCUboot, 1.4.0+7.")
    var version: String?

    @Option(help: "The hardware revisions it runs on: 2, or 1..3,7. Otherwise any.")
    var hardware: String?

    @Option(help: "The security counter: no device that runs a higher one takes the bundle. Otherwise 0.")
    var counter: UInt32?

    @Option(help: ArgumentHelp("The lowest version that may be running on the device.", valueName: "version"))
    var requires: String?

    @Option(help: ArgumentHelp("The lowest battery level, in per cent.", valueName: "per cent"))
    var minimumBattery: UInt8?

    @Option(help: ArgumentHelp("The commit or build that the image came from.", valueName: "text"))
    var source: String?

    @Option(
        name: [.short, .long],
        help: ArgumentHelp(
            "Where it goes. Otherwise beside the image, with the suffix .otaf or, for MCUboot, .signed.bin.",
            valueName: "file"),
        completion: .file())
    var output: String?

    @Flag(help: "Replace a file that is there already.")
    var force = false

    @OptionGroup(title: "Options for --as mcuboot") var mcuboot: MCUbootOptions
    @OptionGroup var passphrase: PassphraseOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, file: image) }

    func answer(_ console: Console) throws -> SignAnswer {
        switch kind {
        case .bundle:
            try mcuboot.refuse("it goes with --as mcuboot")
            return try bundle(signedWith: signers(console), console)
        case .mcuboot:
            try refuseBundleOptions()
            let layout = try mcuboot.layout(version: version)
            return try mcubootImage(layout, signedWith: signers(console), console)
        }
    }

    private func bundle(signedWith keys: [PrivateKey], _ console: Console) throws -> SignAnswer {
        let release = try release()
        let created = try CreationTime.now()
        let known = Self.counter(ofBundleIn: target)
        let file = try BundleSigner(keys: keys).sign(
            FilePath(image), as: release, created: created, to: FilePath(target), replace: force)
        warn(ofCounter: file.envelope.manifest.securityCounter, after: known, in: ("bundle", "--counter"), console)
        return SignAnswer(file)
    }

    private static let largestUsualCounterStep: UInt32 = 1000

    /// A counter cannot be taken back: devices that confirmed it refuse every lower one.
    private func warn(
        ofCounter counter: UInt32, after known: UInt32?, in file: (kind: String, option: String), _ console: Console
    ) {
        let before = known ?? 0
        guard counter > before, counter - before > Self.largestUsualCounterStep else { return }
        let origin = known == nil ? "no earlier \(file.kind) at the output path" : "that of the earlier \(file.kind)"
        console.warn(
            "the security counter \(counter) is \(counter - before) higher than \(before) (\(origin)). A device that "
                + "confirms this \(file.kind) refuses all lower counters permanently.",
            hint: "increase the counter by 1 for each release, or sign again with a lower \(file.option)")
    }

    /// Nil: the file is not there, or is not a bundle.
    private static func counter(ofBundleIn path: String) -> UInt32? {
        guard let prefix = try? InputFile(FilePath(path)).prefix(Envelope.maximumLength) else { return nil }
        return (try? Envelope(parsingPrefix: prefix))?.manifest.securityCounter
    }

    /// Nil: the file is not there, is not an MCUboot image, or has no counter.
    private static func counter(ofMCUbootImageIn path: String) -> UInt32? {
        guard let bytes = try? WholeFile.contents(of: path) else { return nil }
        return (try? MCUbootFile(parsing: bytes))?.image.securityCounter
    }

    private func mcubootImage(
        _ layout: MCUbootLayout, signedWith keys: [PrivateKey], _ console: Console
    ) throws -> SignAnswer {
        guard let key = keys.first, keys.count == 1 else {
            throw Failure.usage("an MCUboot image has one signature", hint: "give --key once")
        }
        let path = mcubootTarget
        guard !path.hasSuffix(".hex") else {
            throw Failure.usage(
                "\(path) would hold a binary, not Intel HEX",
                hint:
                    "give -o a name such as app.signed.bin; then: objcopy -I binary -O ihex app.signed.bin app.signed.hex"
            )
        }
        let known = Self.counter(ofMCUbootImageIn: path)
        let file = try MCUbootSigner(key: key, scheme: mcuboot.pure ? .pure : .digest)
            .sign(FilePath(image), as: layout, to: FilePath(path), replace: force)
        // A counter made of the version is large, and grows with the version.
        if !mcuboot.derivesSecurityCounter, let counter = layout.securityCounter {
            warn(ofCounter: counter, after: known, in: ("image", "--security-counter"), console)
        }
        let report = Verifier(trust: try TrustStore([key.publicKey])).report(on: file)
        return SignAnswer(ImageSummary(file, report), signer: key.publicKey.id, output: path)
    }

    private func signers(_ console: Console) throws -> [PrivateKey] {
        var keys = SigningKeys(passphrases: passphrase.source)
        let signers = try key.map { try keys.key(at: $0) }
        if signers.contains(where: { $0.publicKey.id == DemoKey.id }) {
            console.warn("this is the demo key: everybody has its private half, so its signature proves nothing")
        }
        return signers
    }

    private var target: String { output ?? (image.hasSuffix(".otaf") ? image : image + ".otaf") }

    private var mcubootTarget: String {
        if let output { return output }
        let suffix = [".bin", ".hex"].first { image.hasSuffix($0) } ?? ""
        return image.dropLast(suffix.count) + ".signed.bin"
    }

    /// What an MCUboot image has no place for.
    private func refuseBundleOptions() throws(Failure) {
        let given = [
            ("--product", product != nil), ("--hardware", hardware != nil), ("--counter", counter != nil),
            ("--requires", requires != nil), ("--minimum-battery", minimumBattery != nil), ("--source", source != nil),
        ]
        guard let (name, _) = given.first(where: \.1) else { return }
        let instead = name == "--counter" ? "give --security-counter" : "leave it out, or leave out --as mcuboot"
        throw Failure.usage("\(name) is for a bundle: an MCUboot image does not say it", hint: instead)
    }

    private func release() throws(Failure) -> Release {
        if let minimumBattery, minimumBattery > 100 {
            throw Failure.usage("\(minimumBattery) % is not a battery level", hint: "give 0 to 100 per cent")
        }
        return Release(
            product: try Self.read(product, "product", ProductName.rule) { ProductName($0) },
            version: try Self.read(version, "version", SemanticVersion.rule) { SemanticVersion($0) },
            hardware: try Self.read(hardware, "hardware", HardwareRevisions.rule) { HardwareRevisions($0) },
            securityCounter: counter, minimumBattery: minimumBattery,
            source: try Self.read(source, "source", "1 to 127 bytes without control characters") { text in
                (1...127).contains(text.utf8.count) && text.isPrintable ? text : nil
            },
            requires: try Self.read(requires, "requires", RequiredVersion.rule) { RequiredVersion($0) })
    }
}
