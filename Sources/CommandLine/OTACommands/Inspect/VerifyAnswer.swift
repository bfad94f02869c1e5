import OTAFirmware
import OTASigning

/// The result of the command `verify`.
struct VerifyAnswer: CommandAnswer {
    /// The previous release, with which the bundle was compared.
    struct Previous: Encodable {
        let file, version: String
        let securityCounter: UInt32
        let manifestSha256: String
        /// True if the verified bundle and the previous bundle have the same manifest.
        let sameRelease: Bool
        /// The key ids of the trusted signers of the verified bundle. Only a device that trusts one of these keys can install it.
        let acceptedBy: [String]
        /// The key ids of the trusted signers of the previous bundle that have not signed the verified bundle. A device that trusts only
        /// these keys refuses the verified bundle. Nil if all of them have signed it.
        let refusedBy: [String]?

        /// - Parameters:
        ///   - bundle: the previous bundle.
        ///   - new: the verified bundle.
        init(file: String, _ bundle: VerifiedBundle, _ new: VerifiedBundle, isSame: Bool) {
            acceptedBy = new.signers.map(\.description)
            let missing = bundle.signers.filter { !new.signers.contains($0) }
            refusedBy = missing.isEmpty ? nil : missing.map(\.description)
            self.file = file
            version = bundle.manifest.version.text
            securityCounter = bundle.manifest.securityCounter
            manifestSha256 = bundle.manifestDigest.description
            sameRelease = isSame
        }
    }

    /// An attestation of the bundle.
    struct Attestation: Encodable {
        let predicateType: String
        /// The key ids of the trusted signers.
        let signers: [String]
        /// The object that the attestation names: `bundle` for the bundle file, `manifest` for only its manifest.
        let subject: String
        /// The id of the builder in SLSA provenance; nil if the attestation is not SLSA provenance or does not contain the id.
        let builder: String?

        init(_ attestation: VerifiedAttestation) {
            predicateType = attestation.statement.predicateType
            signers = attestation.signers.map(\.description)
            subject = attestation.match.rawValue
            builder =
                predicateType == Provenance.type
                ? attestation.statement.predicate["runDetails"]?["builder"]?["id"]?.string : nil
        }

        var sentence: String {
            let file = subject == "bundle" ? "" : " It names the manifest, not the bundle file."
            let builder = builder.map { ", built by \($0)" } ?? ""
            return "Attestation: \(predicateType)\(builder), signed by \(signers.joined(separator: ", ")).\(file)"
        }
    }

    var bundle: BundleSummary?
    var images: [PackagedImage]?
    /// The Nordic DFU package that was verified, or that is in the verified bundle. Nil for other files.
    private(set) var package: NordicSummary?
    /// The number of signers that `--signatures` compares; nil if the file is not a bundle.
    private(set) var countedSigners: Int?
    private(set) var previous: Previous?
    private(set) var attestations: [Attestation]?
    private(set) var lines: [TerminalLine]

    private enum CodingKeys: CodingKey {
        case bundle, images, package, countedSigners, previous, attestations
    }

    init(_ verified: VerifiedBundle, file: String) {
        let bundle = BundleSummary(verified.envelope, reports: verified.signatures)
        self.bundle = bundle
        let signers = verified.signers.map(\.description).joined(separator: ", ")
        lines = [
            "\(file) is verified: \(bundle.product) \(bundle.version), \(bundle.imageSize) image bytes, signed by \(signers)."
        ]
        let count = verified.signerCount
        countedSigners = count.signers
        if let explanation = count.explanation {
            let noun = count.signers == 1 ? "signer" : "signers"
            lines.append(
                "The signatures count as \(count.signers) \(noun): the keys of each algorithm are counted (\(explanation))."
            )
        }
    }

    init(_ package: NordicSummary, file: String) {
        self.package = package
        lines = package.sentences(of: file).map { TerminalLine($0) }
    }

    /// Adds the package in a bundle whose digests are correct. The signatures of the bundle authorize it.
    mutating func add(package: NordicSummary) {
        self.package = package
        lines += package.sentencesInBundle.map { TerminalLine($0) }
    }

    /// Adds the comparison with the previous release.
    mutating func add(previous: Previous) {
        self.previous = previous
        guard !previous.sameRelease else {
            lines.append("It is the same release as \(previous.file).")
            return
        }
        let keys = previous.acceptedBy.joined(separator: " or ")
        lines.append(
            "Devices with \(previous.file) (\(previous.version)) can install it if they trust the key \(keys).")
        guard let others = previous.refusedBy else { return }
        lines.append(
            "Devices that trust only \(others.joined(separator: " and ")) refuse it: \(previous.file) also has that signature."
        )
    }

    mutating func add(attestations: [VerifiedAttestation]) {
        let summaries = attestations.map { Attestation($0) }
        self.attestations = summaries
        lines += summaries.map { TerminalLine($0.sentence) }
    }

    init(_ images: [PackagedImage], file: String) {
        self.images = images
        lines = images.flatMap { image in
            [image.sentence(of: file, isAlone: images.count == 1)] + image.lines
        }.map { TerminalLine($0) }
    }
}
