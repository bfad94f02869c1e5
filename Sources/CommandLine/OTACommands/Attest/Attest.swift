import ArgumentParser
import OTAFirmware
import OTASigning
import SystemPackage

/// The command `attest`, which creates an attestation: a signed statement about a bundle. The statement names the builder and the sources
/// of the bundle, or contains another document such as an SBOM.
struct Attest: Command {
    static let name = "attest"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Sign a statement about the build or the components of a bundle.",
        discussion: """
            Example: otaflash attest app.bin.otaf --key release.pem \\
                       --predicate app.spdx.json \\
                       --predicate-type https://spdx.dev/Document

            attest signs a statement about a bundle and appends it to a separate file. The bundle does not change. Each line of \
            the file is one signed statement: an in-toto statement in a DSSE envelope. 'otaflash verify <bundle> --attestation \
            <file>' checks every line.

            Without --predicate, the statement names the build service, the job and the commit that made the bundle (SLSA \
            provenance). attest reads these from the environment variables of GitHub Actions or GitLab CI. On other machines, \
            attest without --predicate fails (exit 64).

            With --predicate, the statement contains your own JSON document, such as an SBOM.
            """)

    @Argument(help: "A bundle; - for stdin, which requires -o.", completion: .file())
    var bundle: String

    @Option(
        help: ArgumentHelp(
            "The private key: \(KeyOptions.forms); repeatable. Required.",
            discussion:
                "Repeat --key for each key of a pair, or for several people. \(KeyOptions.formsManual)",
            valueName: "key"),
        completion: .file())
    var key: [String]

    @Option(
        help: ArgumentHelp(
            "A JSON document to sign, such as an SBOM; default: SLSA provenance. Requires --predicate-type.",
            valueName: "file"),
        completion: .file())
    var predicate: String?

    @Option(
        help: ArgumentHelp(
            "The URI of the document's format (example: https://spdx.dev/Document, https://cyclonedx.org/bom).",
            valueName: "uri"))
    var predicateType: String?

    @Option(
        help: ArgumentHelp(
            "A file that the statement is also about (example: app.elf); repeatable.",
            discussion: "The bundle, its image and its manifest are always subjects.", valueName: "file"),
        completion: .file())
    var subject: [String] = []

    @Option(
        name: [.short, .long],
        help: ArgumentHelp(
            "The file to append to; - for stdout. The default for the bundle app.otaf is app.otaf.intoto.jsonl.",
            valueName: "file"),
        completion: .file())
    var output: String?

    @OptionGroup var passphrase: PassphraseOptions
    @OptionGroup var pin: PINOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, file: bundle) }

    func validate() throws { try options.refuse("-o", at: output ?? bundle + ".intoto.jsonl") }

    func answer(_ console: Console) throws -> AttestAnswer {
        try checkStreams()
        let bundle = try parsedBundle()
        let statement = try statement(about: bundle)
        let target = output ?? self.bundle + ".intoto.jsonl"
        // Open the output before `earlierAttestations` reads the file. `commit()` then fails if another program changes the file after the
        // read.
        let file = try outputFile(at: target)
        let earlier = target == StandardFile.name ? [] : try earlierAttestations(in: target, of: bundle)
        var keys = SigningKeys(passphrases: passphrase.source, pins: pin.source(console))
        let signers = try key.map { try keys.key(at: $0) }
        try check(signers)
        for signer in signers { Sign.warn(ofKey: signer.publicKey.id, console) }
        let line = try AttestationEnvelope(signing: statement, with: signers).line + [UInt8(ascii: "\n")]
        let contents = earlier + line
        let count: Int
        // This call parses the complete contents before the file is written. So `attest` never writes a file that `verify` cannot parse.
        do { count = try AttestationFile(parsing: contents).envelopes.count } catch {
            var failure = Failure(error, in: invocation)
            failure.message = "\(title(of: target)) would be malformed: \(failure.message)"
            failure.hints = ["write to another file: -o FILE"]
            throw failure
        }
        try contents.withUnsafeBytes { try file.write($0, at: 0) }
        try file.commit()
        let answer = AttestAnswer(
            statement, signers: signers.map(\.publicKey.id), output: title(of: target), count: count)
        guard target == StandardFile.name else { return answer }
        console.note(answer.sentence)
        return answer.withoutLines
    }

    private func check(_ signers: [any Signer]) throws(Failure) {
        var ids: Set<KeyID> = []
        if let twice = signers.first(where: { !ids.insert($0.publicKey.id).inserted }) {
            throw .usage(
                "the key \(twice.publicKey.id) was given twice", hint: "give --key once for each key")
        }
        guard signers.count <= AttestationEnvelope.maximumSignatures else {
            throw .usage(
                "\(signers.count) keys were given; the limit is \(AttestationEnvelope.maximumSignatures)",
                hint: "give fewer --key")
        }
    }

    private func checkStreams() throws(Failure) {
        let inputs = [bundle] + (predicate.map { [$0] } ?? []) + subject
        if bundle == StandardFile.name, output == nil {
            throw .usage(
                "the bundle comes from standard input, so the name of the output is unknown",
                hint: "add -o FILE, or -o - for standard output")
        }
        let streams =
            inputs.count { $0 == StandardFile.name } + (passphrase.passphraseFd == 0 ? 1 : 0) + (pin.pinFd == 0 ? 1 : 0)
        if streams > 1 {
            throw .usage(
                "standard input is used more than once",
                hint: "give a file in place of -; or use --passphrase-fd 3 3< FILE, or --pin-fd 3 3< FILE")
        }
        if output == StandardFile.name, options.format == .json {
            throw .usage(
                "standard output cannot be both the attestation and the JSON result",
                hint: "use -o FILE with --format json")
        }
    }

    private func title(of target: String) -> String {
        target == StandardFile.name ? StandardFile.outputTitle : target
    }

    private func parsedBundle() throws -> SignedBundle {
        let bytes = try FileReader.contents(of: bundle)
        let parsed: SignedBundle
        do throws(BundleError) { parsed = try SignedBundle(parsing: bytes) } catch {
            throw Failure(error, in: Invocation(command: Self.name, file: bundle))
        }
        guard parsed.hasIntactImage else {
            throw Failure(
                VerificationError(.digestMismatch, "the digest of the image does not match the signed manifest"),
                in: invocation)
        }
        return parsed
    }

    private func statement(about bundle: SignedBundle) throws -> Statement {
        let name = self.bundle == StandardFile.name ? "bundle" : Self.lastComponent(of: self.bundle)
        var subjects = bundle.subjects(named: name)
        for path in subject {
            let name = path == StandardFile.name ? "stdin" : Self.lastComponent(of: path)
            guard !subjects.contains(where: { $0.name == name }) else {
                throw Failure.usage(
                    "two subjects have the name \(name)", hint: "rename one of the files, or omit one --subject")
            }
            subjects.append(Statement.Subject(name: name, digest: SHA256.digest(of: try FileReader.contents(of: path))))
        }
        guard subjects.count <= Statement.maximumSubjects else {
            throw Failure.usage(
                "the statement has \(subjects.count) subjects; the limit is \(Statement.maximumSubjects)",
                hint: "give fewer --subject")
        }
        let (type, predicate) = try predicate(for: bundle.envelope.manifest)
        return Statement(subjects: subjects, predicateType: type, predicate: predicate)
    }

    private static func lastComponent(of path: String) -> String {
        FilePath(path).lastComponent?.string ?? path
    }

    private func predicate(for manifest: Manifest) throws -> (type: String, JSON) {
        guard predicate != nil || predicateType != nil else {
            return (Provenance.type, Provenance.predicate(manifest, by: try BuildService()))
        }
        guard let predicate, let predicateType else {
            throw Failure.usage(
                "--predicate and --predicate-type belong together",
                hint: "for example: --predicate app.spdx.json --predicate-type https://spdx.dev/Document")
        }
        let type = try Self.read(predicateType, "predicate-type", "a URI, such as https://spdx.dev/Document") {
            Self.isURI($0) ? $0 : nil
        }
        let document = try FileReader.contents(of: predicate)
        let reason: String
        do throws(JSON.Malformed) {
            let json = try JSON(parsing: document[...])
            if json.members != nil { return (type, json) }
            reason = "the document is not an object"
        } catch {
            reason = "\(error.reason), at byte \(error.offset)"
        }
        throw Failure(
            "predicate-malformed", .malformed, "\(StandardFile.title(of: predicate)) is not a JSON object: \(reason)",
            hint:
                "give a JSON document; to convert an SPDX tag-value document: pyspdxtools -i app.spdx -o app.spdx.json")
    }

    /// Returns whether a text starts with the scheme of a URI, such as `https:`, and contains only printable ASCII without spaces (RFC
    /// 3986).
    private static func isURI(_ text: String) -> Bool {
        guard let colon = text.utf8.firstIndex(of: UInt8(ascii: ":")), text.utf8.index(after: colon) < text.endIndex,
            text.first?.isLetter == true
        else { return false }
        let scheme = text.utf8[..<colon]
        return text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
            && scheme.allSatisfy { UnicodeScalar($0).properties.isAlphabetic || "+-.0123456789".utf8.contains($0) }
    }

    /// Returns the attestations that the output file already contains, with a line feed at the end. Returns an empty array if the file does
    /// not exist or is empty.
    ///
    /// - Throws: `attestation-malformed` if the file contains anything but attestations; `attestation-differs` if an attestation in the
    ///   file is about another bundle.
    private func earlierAttestations(in path: String, of bundle: SignedBundle) throws -> [UInt8] {
        let bytes: [UInt8]
        do throws(SigningError) {
            bytes = try InputFile(FilePath(path)).prefix(AttestationFile.maximumSize + 1)
        } catch  where error.code == SigningError.Code.noSuchFile.rawValue {
            return []
        } catch {
            throw Failure(error, in: Invocation(command: Self.name, file: path))
        }
        guard !bytes.isEmpty else { return [] }
        do throws(AttestationError) {
            for envelope in try AttestationFile(parsing: bytes).envelopes {
                let digests = try Statement(parsing: envelope.payload).subjects.map(\.digest)
                guard
                    digests.contains(bundle.fileDigest)
                        || digests.contains(SHA256.digest(of: bundle.envelope.manifestBytes))
                else { throw AttestationError(.differs, "it already has an attestation of another bundle") }
            }
        } catch {
            var failure = Failure(error, in: invocation)
            failure.message = "cannot append to \(path): \(failure.message)"
            failure.hints = ["write to another file: -o FILE; or move the old file away, if it contains attestations"]
            throw failure
        }
        return bytes.last == UInt8(ascii: "\n") ? bytes : bytes + [UInt8(ascii: "\n")]
    }

    private func outputFile(at path: String) throws -> OutputFile {
        path == StandardFile.name
            ? try OutputFile(to: .standardOutput, as: FilePath(StandardFile.outputTitle))
            : try OutputFile(FilePath(path), replaces: true)
    }
}

/// The result of the command `attest`.
struct AttestAnswer: CommandAnswer {
    struct Subject: Encodable {
        let name: String?
        let sha256: String?
    }
    struct Attestation: Encodable {
        let predicateType: String
        /// The IDs of the keys.
        let signers: [String]
        let subjects: [Subject]
    }
    let attestation: Attestation
    let output: String
    /// The number of attestations in the output file, including the new one.
    let count: Int
    let sentence: String
    private(set) var lines: [TerminalLine]

    private enum CodingKeys: CodingKey {
        case attestation, output, count
    }

    /// The result without text for the user. `attest` uses it if the attestation goes to standard output, because standard output must then
    /// contain only the attestation.
    var withoutLines: AttestAnswer {
        var copy = self
        copy.lines = []
        return copy
    }

    init(_ statement: Statement, signers: [KeyID], output: String, count: Int) {
        attestation = Attestation(
            predicateType: statement.predicateType, signers: signers.map(\.description),
            subjects: statement.subjects.map { Subject(name: $0.name, sha256: $0.digest?.description) })
        self.output = output
        self.count = count
        let total = count > 1 ? " The file has \(count) attestations." : ""
        let signer = signers.map(\.description).joined(separator: ", ")
        sentence =
            "Wrote \(output): \(statement.predicateType) of \(statement.subjects.first?.name ?? "the bundle"), signed by \(signer).\(total)"
        lines = [TerminalLine(sentence)]
    }
}
