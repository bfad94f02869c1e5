import ArgumentParser
import OTAFirmware
import OTASigning
import SystemPackage

struct Sign: Verb {
    static let name = "sign"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Make a signed bundle of an image, or add a signature to a bundle.",
        discussion: """
            An image is a raw binary, an ESP-IDF application, an MCUboot image or Intel HEX. What an image says of \
            itself, product and version, need not be said again, and may not be contradicted. A bundle in its place \
            gets one signature more for each key, and needs no other option.
            """)

    @Argument(help: "The image, or a bundle.", completion: .file())
    var image: String

    @Option(
        help: ArgumentHelp(
            "The private key to sign with: a file, or env:NAME for a variable that holds the PEM text; up to four.",
            valueName: "key"),
        completion: .file())
    var key: [String]

    @Option(help: "What the image is for: the name that the device gives itself.")
    var product: String?

    @Option(help: "The image's version, as SemVer: 1.4.0.")
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
            "Where the bundle goes. Otherwise beside the image, with the suffix .otaf.", valueName: "file"),
        completion: .file())
    var output: String?

    @Flag(help: "Replace a file that is there already.")
    var force = false

    @OptionGroup var passphrase: PassphraseOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    var situation: Situation { Situation(command: Self.name, file: image) }

    func answer(_ console: Console) throws -> SignAnswer {
        let release = try release()
        let created = try CreationTime.now()
        var keys = SigningKeys(passphrases: passphrase.source)
        let signers = try key.map { try keys.key(at: $0) }
        if signers.contains(where: { $0.publicKey.id == DemoKey.id }) {
            console.warn("this is the demo key: everybody has its private half, so its signature proves nothing")
        }
        let file = try BundleSigner(keys: signers).sign(
            FilePath(image), as: release, created: created, to: FilePath(target), replace: force)
        let notes = file.image?.notes ?? []
        return SignAnswer(bundle: BundleSummary(file.envelope), output: file.path.string, notes: notes)
    }

    private var target: String { output ?? (image.hasSuffix(".otaf") ? image : image + ".otaf") }

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
                (1...127).contains(text.utf8.count) && text.printableLine == text ? text : nil
            },
            requires: try Self.read(requires, "requires", RequiredVersion.rule) { RequiredVersion($0) })
    }
}

struct SignAnswer: Answer {
    let bundle: BundleSummary
    let output: String
    let notes: [String]

    private enum CodingKeys: CodingKey {
        case bundle, output
    }

    var text: String {
        let count = bundle.signatures.count
        let line =
            "Wrote \(output.printableLine): \(bundle.product) \(bundle.version), \(bundle.imageSize) bytes of image, "
            + "signed by \(bundle.signers)\(count > 1 ? " (\(count) signatures)" : "")."
        return ([line] + notes.map { "Note: \($0)" }).joined(separator: "\n")
    }
}
