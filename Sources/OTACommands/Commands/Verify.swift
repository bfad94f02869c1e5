import ArgumentParser
import OTAFirmware
import OTASigning

struct Verify: Verb {
    static let name = "verify"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Verify a bundle against the trusted keys.",
        discussion: """
            What a release pipeline calls before it publishes: exit 0 means that a device which trusts the same keys \
            accepts the bundle.
            """)

    @Argument(help: "The bundle.", completion: .file())
    var bundle: String

    @OptionGroup var trust: TrustOptions

    @Option(help: "The product it must be for.")
    var product: String?

    @Option(help: ArgumentHelp("A hardware revision it must run on.", valueName: "revision"))
    var hardware: UInt16?

    @Option(help: ArgumentHelp("The lowest security counter it may have.", valueName: "n"))
    var counter: UInt32?

    @Flag(help: "Take a bundle that only the demo key has signed.")
    var allowDemoKey = false

    @OptionGroup(title: "Output options") var options: OutputOptions

    var situation: Situation {
        var situation = Situation(command: Self.name, file: bundle, trust: trust.trust)
        let values = [
            ("--product", product), ("--hardware", hardware?.description), ("--counter", counter?.description),
        ]
        for (name, value) in values { if let value { situation.options += [name, value] } }
        if allowDemoKey { situation.options.append("--allow-demo-key") }
        return situation
    }

    func answer(_ console: Console) throws -> VerifyAnswer {
        let policy = TrustPolicy(
            product: try Self.read(product, "product", ProductName.rule) { ProductName($0) }, hardware: hardware,
            minimumSecurityCounter: counter, allowsDemoKey: allowDemoKey)
        let signed = try SignedBundle(parsing: WholeFile.contents(of: bundle))
        let verified = try Verifier(trust: trust.store(console), policy: policy).verify(signed)
        return VerifyAnswer(
            bundle: BundleSummary(signed.envelope, reports: verified.signatures), file: bundle,
            signers: verified.signers.map(\.description))
    }
}

struct VerifyAnswer: Answer {
    let bundle: BundleSummary
    let file: String
    /// Ids of the trusted keys whose signatures hold.
    let signers: [String]

    private enum CodingKeys: CodingKey {
        case bundle
    }

    var text: String {
        "\(file.printableLine) is verified: \(bundle.product) \(bundle.version), \(bundle.imageSize) bytes of image, "
            + "signed by \(signers.joined(separator: ", "))."
    }
}
