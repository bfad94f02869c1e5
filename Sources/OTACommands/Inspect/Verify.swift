import ArgumentParser
import OTAClient
import OTAFirmware
import OTASigning

/// The command `verify`, which verifies a file against the trusted keys.
struct Verify: Command {
    static let name = "verify"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Verify a bundle or an MCUboot image against the trusted keys.",
        discussion: """
            Run it in a release pipeline before publication. Exit 0: a device that trusts the same keys accepts the file. \
            An MCUboot image can also be Intel HEX or in a Device Manager package (zip). For MCUboot images, the output \
            lists what was checked and what was not.

            Example: otaflash verify app.bin.otaf --trust release.pub.pem --product demo
            """)

    @Argument(help: "A bundle, an MCUboot image or a package of images; - for stdin.", completion: .file())
    var file: String

    @OptionGroup var trust: TrustOptions

    @Option(help: "Require this product (example: acme-lamp); default: any.")
    var product: String?

    @Option(
        help: ArgumentHelp("Require support for this hardware revision; default: any.", valueName: "revision"),
        transform: WholeNumber.in(0...UInt16.max))
    var hardware: UInt16?

    @Option(
        help: ArgumentHelp("Require at least this security counter; default: any.", valueName: "n"),
        transform: WholeNumber.in(0...UInt32.max))
    var counter: UInt32?

    @Flag(help: "Accept a bundle signed only by the demo key.")
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
