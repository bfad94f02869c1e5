import ArgumentParser
import OTAClient
import OTAFirmware
import OTASigning
import SystemPackage

/// The command `verify`, which verifies a file against the trusted keys.
struct Verify: Command {
    static let name = "verify"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Check that a trusted key has signed a file.",
        discussion: """
            Example: otaflash verify app.bin.otaf --trust release.pub.pem --product demo
                     otaflash verify app.bin.otaf --trust release.pub.pem \\
                       --previous last.otaf

            verify checks the signatures and the digests of a bundle, an MCUboot image or a package. Run it before you publish a release. For \
            an MCUboot image or a Nordic DFU package, the output also lists the parts that verify cannot check.

            Exit 0: the file is complete and is signed by a trusted key. Exit 65: the file is not a valid bundle, image or package. \
            Exit 77: no trusted key has signed the file, a signature or digest is wrong, or the file does not meet an option \
            such as --product. A device can still refuse a verified file, for example because the file is for another product.

            With --previous, verify also checks that <file> is a suitable update for devices that run the previous bundle:
              - the product is the same, and the version is newer;
              - the security counter is the same or higher;
              - at least one trusted key has signed both bundles. The output names these keys: a device installs <file> only if it \
            trusts one of the keys that signed it;
              - the previous version is at least the version that <file> requires.

            With --attestation, verify also checks each attestation: a trusted key has signed it, and it is about <file> (see \
            'otaflash attest --help').
            """)

    @Argument(
        help: ArgumentHelp(
            "A bundle, an MCUboot image or a package (dfu_application.zip); - for stdin.",
            discussion:
                "An MCUboot image is binary or Intel HEX. A package is a zip for nRF Connect Device Manager or for Nordic DFU."
        ),
        completion: .file())
    var file: String

    @OptionGroup var trust: TrustOptions

    @Option(
        help: ArgumentHelp(
            "Refuse a bundle of another product (example: acme-lamp), and a file without a product.",
            discussion: "An MCUboot image and a Nordic DFU package name no product. Default: any product."))
    var product: String?

    @Option(
        help: ArgumentHelp(
            "Refuse a bundle or a Nordic DFU package for other hardware, and every MCUboot image.",
            discussion:
                "A revision is 0 to 65535. An MCUboot image names no revision. For a Nordic DFU package, it is compared with each "
                + "init packet. Default: any revision.",
            valueName: "revision"),
        transform: WholeNumber.in(0...UInt16.max))
    var hardware: UInt16?

    @Option(
        help: ArgumentHelp(
            "Refuse a file with a lower security counter than this number, 0 to 4294967295; default: 0.",
            discussion: "A Nordic DFU package has no security counter, so a number above 0 refuses it.",
            valueName: "n"),
        transform: WholeNumber.in(0...UInt32.max))
    var counter: UInt32?

    @Option(
        help: ArgumentHelp(
            "Refuse <file> if it is not a suitable update for devices that run this bundle.",
            discussion: "This is the bundle of the previous release. Default: no comparison.", valueName: "bundle"),
        completion: .file())
    var previous: String?

    @Option(
        help: ArgumentHelp(
            TrustOptions.signaturesHelp, discussion: TrustOptions.signaturesManual, valueName: "n"),
        transform: WholeNumber.in(1...4))
    var signatures: Int?

    @Option(
        help: ArgumentHelp(
            "Check each statement in this file of 'otaflash attest'.",
            discussion:
                "Refuse <file> if a statement is not about <file>, or is not signed by a trusted key. Default: no attestations.",
            valueName: "path"),
        completion: .file())
    var attestation: String?

    @Option(
        help: ArgumentHelp(
            "The keys for --attestation; default: those of --trust.",
            discussion:
                "A public key, or a folder with public keys (*.pub.pem); repeatable. At least one of these keys must have signed "
                + "each attestation.",
            valueName: "path"),
        completion: .file())
    var attestationTrust: [String] = []

    @Flag(
        help: ArgumentHelp(
            TrustOptions.demoKeyHelp, discussion: TrustOptions.demoKeyManual))
    var allowDemoKey = false

    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation {
        var invocation = Invocation(command: Self.name, file: file, trust: trust.trust)
        let values = [
            ("--product", product), ("--hardware", hardware?.description), ("--counter", counter?.description),
            ("--previous", previous), ("--signatures", signatures?.description), ("--attestation", attestation),
        ]
        for (name, value) in values { if let value { invocation.options += [name, value] } }
        for path in attestationTrust { invocation.options += ["--attestation-trust", path] }
        if allowDemoKey { invocation.options.append("--allow-demo-key") }
        return invocation
    }

    func answer(_ console: Console) throws -> VerifyAnswer {
        let policy = TrustPolicy(
            product: try Self.read(product, "product", ProductName.rule) { ProductName($0) }, hardware: hardware,
            minimumSecurityCounter: counter, allowsDemoKey: allowDemoKey, minimumSigners: signatures ?? 1)
        guard previous != StandardFile.name || file != StandardFile.name else {
            throw Failure.usage(
                "FILE and --previous are both standard input",
                hint: "give the previous bundle as a file: --previous OLD.otaf")
        }
        guard attestation != StandardFile.name || ![file, previous].contains(StandardFile.name) else {
            throw Failure.usage(
                "--attestation and another file are both standard input",
                hint: "give the attestations as a file: --attestation FILE.intoto.jsonl")
        }
        guard attestation != nil || attestationTrust.isEmpty else {
            throw Failure.usage(
                "--attestation-trust is for attestations, and --attestation is missing",
                hint: "give the file of the attestations: --attestation FILE.intoto.jsonl")
        }
        let bytes = try FileReader.contents(of: file)
        if FirmwareFileKind.detect(file: bytes) == .zip, let package = try NordicArchive.package(in: bytes) {
            try refuseBundleOptions()
            return try verified(package, Verifier(trust: trust.store(console), policy: policy), console)
        }
        let update = try UpdateFile(parsing: bytes)
        let verifier = Verifier(trust: try trust.store(console), policy: policy)
        switch update {
        case .bundle(let signed):
            let verified: VerifiedBundle
            do throws(VerificationError) { verified = try verifier.verify(signed) } catch {
                throw failure(error, of: signed.envelope, verifier)
            }
            var answer = VerifyAnswer(verified, file: StandardFile.title(of: file))
            if verified.manifest.imageFormat == .nordicDFU {
                try answer.add(package: self.package(in: signed, verifier, console))
            }
            if let previous {
                try answer.add(previous: checked(verified, after: previous, trust: verifier.trust, console))
            }
            if let attestation {
                try answer.add(attestations: attestations(in: attestation, of: verified, verifier, console))
            }
            return answer
        case .images(let images):
            try refuseBundleOptions()
            do throws(VerificationError) { _ = try update.verified(by: verifier) } catch {
                guard error.code == .tooFewSignatures else { throw error }
                var invocation = invocation
                invocation.hasImages = true
                throw Failure(error, in: invocation)
            }
            return VerifyAnswer(
                images.map { PackagedImage($0, verifier.report(on: $0.file)) }, file: StandardFile.title(of: file))
        }
    }

    private func refuseBundleOptions() throws(Failure) {
        guard attestation == nil else {
            throw Failure.usage(
                "--attestation is for bundles, and \(StandardFile.title(of: file)) is not a bundle",
                hint: "omit --attestation; or sign the image into a bundle, and attest the bundle")
        }
        guard previous == nil else {
            throw Failure.usage(
                "--previous compares bundles, and \(StandardFile.title(of: file)) is not a bundle",
                hint: "omit --previous; --counter compares the security counter of an MCUboot image")
        }
    }

    /// Checks the digests and the hardware of the Nordic DFU package in a verified bundle.
    private func package(
        in bundle: SignedBundle, _ verifier: Verifier, _ console: Console
    ) throws -> NordicSummary {
        let package = try NordicArchive.package(of: bundle)
        let reports = verifier.report(on: package)
        try package.checkDigests(reports)
        try package.checkHardware(of: bundle.envelope.manifest.hardware, required: hardware)
        let summary = NordicSummary(package, reports, isInBundle: true)
        warn(of: summary, console)
        return summary
    }

    private func warn(of package: NordicSummary, _ console: Console) {
        for warning in package.warnings {
            console.warn(warning, hint: "for a release, create the package again without the debug mode of nrfutil")
        }
    }

    private func verified(
        _ package: NordicPackage, _ verifier: Verifier, _ console: Console
    ) throws(Failure) -> VerifyAnswer {
        let reports = verifier.report(on: package)
        do throws(VerificationError) {
            _ = try verifier.verify(package, reports)
            let summary = NordicSummary(package, reports, isInBundle: false)
            warn(of: summary, console)
            return VerifyAnswer(summary, file: StandardFile.title(of: file))
        } catch {
            var failure = Failure(error, in: invocation)
            switch error.code {
            case .notSigned, .unsupportedSignature, .tooFewSignatures:
                let sign = Invocation(command: Sign.name, file: file)
                failure.hints = [
                    "sign the package into a bundle: "
                        + sign.line(adding: "--key KEY.pem --product P --version X.Y.Z")
                ]
            default: break
            }
            throw failure
        }
    }

    /// Verifies the attestations of a bundle with the keys of `--attestation-trust`. Without this option, verifies the attestations with
    /// the trusted keys of the bundle (`--trust`).
    private func attestations(
        in name: String, of bundle: VerifiedBundle, _ verifier: Verifier, _ console: Console
    ) throws -> [VerifiedAttestation] {
        let paths = attestationTrust.map { FilePath($0) }
        let trust =
            paths.isEmpty ? verifier.trust : try TrustOptions.store(at: paths, filesAreChosen: true, console)
        let bytes = try FileReader.contents(of: name)
        do throws(AttestationError) {
            return try Verifier(trust: trust, policy: TrustPolicy(allowsDemoKey: allowDemoKey)).verify(
                AttestationFile(parsing: bytes), of: bundle)
        } catch {
            throw failure(error, ofAttestation: name, trust)
        }
    }

    /// Reads the bundle of a previous release. Returns nil if the file is not a bundle.
    static func bundle(in path: String) throws -> SignedBundle? {
        let bytes = try FileReader.contents(of: path)
        guard FirmwareFileKind.detect(file: bytes) != .zip, case .bundle(let signed) = try UpdateFile(parsing: bytes)
        else { return nil }
        return signed
    }

    /// Verifies the bundle of the previous release, and checks that devices with the previous release can install `bundle`.
    ///
    /// A trusted key must have signed the previous bundle, too, because a forged bundle could name any version. If both bundles have the
    /// same manifest, they are the same release, and the comparison is not necessary.
    private func checked(
        _ bundle: VerifiedBundle, after name: String, trust: TrustStore, _ console: Console
    ) throws -> VerifyAnswer.Previous {
        let title = StandardFile.title(of: name)
        let previous: VerifiedBundle
        do {
            guard let signed = try Self.bundle(in: name) else {
                throw Failure.usage(
                    "--previous compares bundles, and \(title) is not a bundle",
                    hint: "give the bundle of the previous release")
            }
            // The previous bundle is not installed. It can be older than the policy.
            previous = try Verifier(trust: trust.withoutPolicy, policy: TrustPolicy(allowsDemoKey: allowDemoKey))
                .verify(
                    signed)
        } catch {
            throw failure(error, ofPrevious: name)
        }
        let isSame = bundle.manifestDigest == previous.manifestDigest
        if !isSame {
            do throws(VerificationError) { try bundle.check(after: previous) } catch {
                throw failure(error, of: bundle.manifest)
            }
        }
        if !bundle.keepsHardware(of: previous) {
            let (old, new) = (previous.manifest.hardware, bundle.manifest.hardware)
            console.note(
                "the bundle is for hardware \(new.map(\.description) ?? "any"), and \(title) is for "
                    + "\(old.map { "hardware \($0)" } ?? "any hardware"): devices with another revision cannot install the bundle"
            )
        }
        return VerifyAnswer.Previous(file: title, previous, bundle, isSame: isSame)
    }
}

/// Functions that create failures whose hints depend on the options of `verify`.
extension Verify {
    /// Returns the failure for a bundle that is not signed by the trusted keys, or that does not meet an option such as `--product`.
    private func failure(_ error: VerificationError, of envelope: Envelope, _ verifier: Verifier) -> Failure {
        var failure = Failure(error, in: invocation)
        let untrusted = verifier.report(on: envelope).filter { !$0.trusted && !$0.isOutOfScope }
        guard error.code == .tooFewSignatures, !untrusted.isEmpty else { return failure }
        let ids = untrusted.map(\.keyID.description).joined(separator: ", ")
        failure.message += "; also signed by \(ids), which is not trusted here"
        let trusted = completed.line(adding: "--trust KEY.pub.pem")
        failure.hints.insert("if you trust the other signer, give its public key too: \(trusted)", at: 0)
        return failure
    }

    /// Returns the failure for the file of `--previous`. If the key of this file is not trusted, or is the demo key, the hints repeat the
    /// whole command of the user, with `--previous`. The reason: a command that verifies only the previous bundle could succeed, and the
    /// user could then publish the release without the comparison.
    private func failure(_ error: any Error, ofPrevious name: String) -> Failure {
        var failure = Failure(error, in: Invocation(command: Self.name, file: name))
        failure.message = "the previous bundle: \(failure.message)"
        guard let error = error as? VerificationError else { return failure }
        switch error.code {
        case .untrustedKey:
            failure.hints = [
                "if that key was replaced, compare with the release that both keys signed (docs/key-rotation.md)",
                "if you trust the signer of the previous bundle, give its public key too: "
                    + completed.line(adding: "--trust KEY.pub.pem"),
            ]
        case .demoKey:
            failure.hints = ["to accept the demo key in a test: \(completed.line(adding: "--allow-demo-key"))"]
        default: break
        }
        return failure
    }

    /// Returns the failure for the file of `--attestation`.
    private func failure(_ error: AttestationError, ofAttestation name: String, _ trust: TrustStore) -> Failure {
        var failure = Failure(error, in: invocation)
        failure.message = "\(StandardFile.title(of: name)): \(failure.message)"
        guard error.code == .untrusted else { return failure }
        // The hint adds an --attestation-trust to the user's command. If the user's command has no --attestation-trust, the added option
        // would replace the keys of --trust. Therefore the hint also repeats the keys of --trust as --attestation-trust.
        var complete = invocation
        if attestationTrust.isEmpty {
            for path in self.trust.paths { complete.options += ["--attestation-trust", path.string] }
        }
        failure.hints = [
            "if you trust the signer of the attestation, give its public key too: "
                + complete.line(adding: "--attestation-trust KEY.pub.pem")
        ]
        if !allowDemoKey, trust[DemoKey.id] != nil {
            failure.hints.append(
                "to accept the demo key in a test: \(invocation.line(adding: "--allow-demo-key"))")
        }
        return failure
    }

    /// Returns the failure for a bundle that devices with the previous release cannot install.
    private func failure(_ error: VerificationError, of manifest: Manifest) -> Failure {
        var failure = Failure(error, in: invocation)
        let sign = "sign the image again"
        switch error.code {
        case .versionNotRaised where manifest.imageFormat != .raw:
            failure.hints = [
                "raise the version in the firmware project, build the image, and sign it; sign takes the version from the image"
            ]
        case .requiresNewer:
            failure.hints = [
                "\(sign) with a lower --requires; or publish a release between the two, and compare with that release"
            ]
        default: break
        }
        return failure
    }

    /// The invocation for a hint that adds `--trust KEY.pub.pem`. A command with `--trust` does not use the default keys. So this
    /// invocation contains a `--trust` for each path of the current trusted keys.
    private var completed: Invocation {
        var completed = invocation
        completed.trust = trust.paths.map(\.string)
        return completed
    }
}
