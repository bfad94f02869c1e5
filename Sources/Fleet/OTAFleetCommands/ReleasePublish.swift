import ArgumentParser
import OTACommands
import OTAFirmware
import OTAFleet
import OTASigning
import OTAStore

/// The command `release publish`, which writes a bundle and its signed record to the store.
struct ReleasePublish: Command {
    static let name = "release publish"
    static let configuration = CommandConfiguration(
        commandName: "publish", abstract: "Publish a bundle for rollouts.",
        discussion: """
            Example: otaflash release publish app.bin.otaf --key ops.pem \\
                       --trust release.pub.pem

            publish checks that a trusted key has signed the bundle (--trust), and writes the bundle to the store. It also writes \
            the release, a record that it signs with the operator's private key (--key), and prints the ID of the release. If the \
            same bundle is already published, publish changes nothing (exit 0). If its release is withdrawn, publish fails.
            """)

    @Argument(help: "A bundle (app.bin.otaf), at most 16 MiB.", completion: .file())
    var file: String

    @OptionGroup var signing: SigningOptions
    @OptionGroup var trust: TrustOptions
    @OptionGroup var store: StoreOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, file: file, trust: trust.given) }

    func answer(_ console: Console) async throws -> ReleaseAnswer {
        try StandardFile.refuse(file, "publish does not read standard input", hint: "save the bundle to a file first")
        let bytes = try FileReader.contents(of: file)
        let bundle = try Verifier(trust: trust.store(console)).verify(SignedBundle(parsing: bytes))
        guard ImageFormat.bootable.contains(bundle.manifest.imageFormat) else {
            throw PackageError(
                .notPushed, "it contains a package for Nordic DFU, which no gateway can send to a device",
                hint: "publish a bundle of an image that the device boots (otaflash sign --help)")
        }
        let (signer, operators) = try signing.keys(console)
        let release = FleetRelease(of: bundle)
        let record = try operators.sign(release, with: signer)
        let isNew = try await store.withStore {
            try await publish(release, operators, record.encoded(), bytes, in: $0, console)
        }
        return ReleaseAnswer(release, isNew: isNew)
    }

    /// Writes the release to the store. Returns false if the store already has the release.
    private func publish(
        _ release: FleetRelease, _ operators: OperatorKeys, _ record: [UInt8], _ bundle: [UInt8],
        in store: any FleetStore, _ console: Console
    ) async throws -> Bool {
        let key = try RecordKey(release.id)
        let stored = try await store.read(key)
        let known = try stored.flatMap { try valid($0, release.id, operators, console) }
        if let known, known.value.state == .withdrawn {
            throw FleetError(
                .badChange, "the release \(release.id) is withdrawn, which is final",
                hint: "sign the image again, with a new version")
        }
        if let known, known.value.bundleDigest != release.bundleDigest {
            console.warn(
                "the store keeps the published bundle of the release \(release.id), which has other signatures",
                hint: FleetRelease.signaturesAdvice)
            return false
        }
        // The bundle is written before its record, so that a gateway that reads the record finds the bundle.
        try await store.putObject(bundle, digest: release.bundleDigest)
        if known == nil { try await store.put(record, at: key, expecting: stored?.revision ?? .absent) }
        return known == nil
    }

    /// Returns the stored release; nil if its record is damaged. A new record then replaces the damaged one.
    ///
    /// - Throws: `FleetError` if the record may be valid with other keys or with a later otaflash.
    private func valid(
        _ stored: StoredRecord, _ id: ReleaseID, _ operators: OperatorKeys, _ console: Console
    ) throws(FleetError) -> Verified<FleetRelease>? {
        do { return try operators.release(stored, id) } catch {
            guard error.code == .malformed || error.code == .tooLarge else { throw error }
            console.warn(
                "the record of the release \(id) is replaced, because it was not valid: \(error.context)",
                hint: "if the release was withdrawn, withdraw it again: otaflash release withdraw \(id) --key KEY.pem")
            return nil
        }
    }
}

/// The result of `release publish`.
struct ReleaseAnswer: CommandAnswer {
    private struct Members: Encodable {
        let id, product, version: String
        let counter: UInt32
        let size: Int
        let isNew: Bool
    }
    private let release: Members

    init(_ release: FleetRelease, isNew: Bool) {
        self.release = Members(
            id: release.id.text, product: release.product.text, version: release.version.text,
            counter: release.securityCounter, size: release.size, isNew: isNew)
    }

    var lines: [TerminalLine] {
        TextTable.pairs([
            (release.isNew ? "published" : "already published", "\(release.product) \(release.version)"),
            ("release", release.id),
        ])
    }
}
