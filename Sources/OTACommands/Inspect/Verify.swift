import ArgumentParser
import OTAClient
import OTAFirmware
import OTASigning

/// The command `verify`, which verifies a file against the trusted keys.
struct Verify: Command {
    static let name = "verify"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Check that a trusted key has signed a file.",
        discussion: """
            verify checks the signatures and the digest of a bundle or an MCUboot image. Run it before you publish a release. \
            Exit 0: the file is complete and is signed by a trusted key. Exit 65 or 77: it is not. A device can still refuse a \
            verified file, for example because it is for another product. For an MCUboot image, the output also lists the \
            parts that verify cannot check.

            Example: otaflash verify app.bin.otaf --trust release.pub.pem --product demo
            """)

    @Argument(
        help:
            "A bundle, an MCUboot image (binary or Intel HEX) or an nRF Connect Device Manager zip (dfu_application.zip); - for stdin.",
        completion: .file())
    var file: String

    @OptionGroup var trust: TrustOptions

    @Option(
        help:
            "Refuse a bundle for another product, and each MCUboot image, which has no product (example: acme-lamp); default: any product."
    )
    var product: String?

    @Option(
        help: ArgumentHelp(
            "Refuse a bundle that is not for this hardware revision, 0 to 65535, and each MCUboot image, which has no revision; "
                + "default: any revision.",
            valueName: "revision"),
        transform: WholeNumber.in(0...UInt16.max))
    var hardware: UInt16?

    @Option(
        help: ArgumentHelp(
            "Refuse a security counter that is lower than this, 0 to 4294967295; default: 0.", valueName: "n"),
        transform: WholeNumber.in(0...UInt32.max))
    var counter: UInt32?

    @Flag(help: "Accept a file that only the published demo key has signed.")
    var allowDemoKey = false

    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation {
        var invocation = Invocation(command: Self.name, file: file, trust: trust.trust)
        let values = [
            ("--product", product), ("--hardware", hardware?.description), ("--counter", counter?.description),
        ]
        for (name, value) in values { if let value { invocation.options += [name, value] } }
        if allowDemoKey { invocation.options.append("--allow-demo-key") }
        return invocation
    }

    func answer(_ console: Console) throws -> VerifyAnswer {
        let policy = TrustPolicy(
            product: try Self.read(product, "product", ProductName.rule) { ProductName($0) }, hardware: hardware,
            minimumSecurityCounter: counter, allowsDemoKey: allowDemoKey)
        let update = try UpdateFile(parsing: FileReader.contents(of: file))
        let verifier = Verifier(trust: try trust.store(console), policy: policy)
        switch update {
        case .bundle(let signed): return VerifyAnswer(try verifier.verify(signed), file: StandardFile.title(of: file))
        case .images(let images):
            _ = try update.verified(by: verifier)
            return VerifyAnswer(
                images.map { PackagedImage($0, verifier.report(on: $0.file)) }, file: StandardFile.title(of: file))
        }
    }
}

/// The result of the command `verify`.
struct VerifyAnswer: CommandAnswer {
    var bundle: BundleSummary?
    var images: [PackagedImage]?
    let lines: [TerminalLine]

    private enum CodingKeys: CodingKey {
        case bundle, images
    }

    init(_ verified: VerifiedBundle, file: String) {
        let bundle = BundleSummary(verified.envelope, reports: verified.signatures)
        self.bundle = bundle
        let signers = verified.signers.map(\.description).joined(separator: ", ")
        lines = [
            "\(file) is verified: \(bundle.product) \(bundle.version), \(bundle.imageSize) image bytes, signed by \(signers)."
        ]
    }

    init(_ images: [PackagedImage], file: String) {
        self.images = images
        lines = images.flatMap { image in
            [image.sentence(of: file, isAlone: images.count == 1)] + image.lines
        }.map { TerminalLine($0) }
    }
}
