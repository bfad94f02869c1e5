import FoundationEssentials
import OTAFirmware
import OTASigning

/// The contents of a bundle, for text and JSON output.
struct BundleSummary: Encodable, Sendable {
    /// A signature and the result of its verification.
    struct Signature: Encodable, Sendable {
        let keyID: String
        let algorithm: String
        /// `trusted` is true if the key is in the trust store and the scope of the key allows this bundle. `valid` is true if the signature
        /// is valid. Both are nil if the bundle was not verified. `valid` is also nil if the signature was not checked: because `trusted`
        /// is false, or for the reason in `unchecked`.
        var trusted, valid: Bool?
        /// The reason why the signature of a trusted key could not be checked; otherwise nil.
        var unchecked: String?
        /// The key id of the partner that must also have signed, if its signature is missing or invalid. Otherwise nil.
        var missingPartner: String?
        /// True if the key is in the trust store, but the scope of the key does not allow this bundle. Otherwise nil.
        var outOfScope: Bool?
    }
    /// A manifest field that this version of otaflash does not know.
    struct Field: Encodable, Sendable {
        /// The field type as 4 hex digits.
        let type: String
        let critical: Bool
        /// The value as hex digits.
        let value: String
    }
    let product, version: String
    /// The hardware revisions that can run the image, as pairs of the lowest and the highest revision; nil if all revisions can run it.
    let hardware: [[UInt16]]?
    let securityCounter: UInt32
    let requires: String?
    /// The lowest battery level at which a device accepts the bundle, in per cent; nil if the bundle has no such condition.
    let minimumBattery: UInt8?
    let source: String?
    let imageFormat: String
    let imageSize: UInt32
    let imageSha256: String
    let created: String
    let manifestSha256: String
    let signatures: [Signature]
    let unknownFields: [Field]?

    /// Creates the summary of an envelope.
    ///
    /// - Parameter reports: the results of the signature verification; nil if the signatures were not verified.
    init(_ envelope: Envelope, reports: [SignatureReport]? = nil) {
        let signatures =
            if let reports {
                reports.map {
                    Signature(
                        keyID: $0.keyID.description, algorithm: $0.algorithm?.name ?? "unknown", trusted: $0.trusted,
                        valid: $0.valid, unchecked: $0.failure?.context,
                        missingPartner: $0.missingPartner?.description, outOfScope: $0.isOutOfScope ? true : nil)
                }
            } else {
                envelope.signatures.map {
                    Signature(keyID: $0.keyID.description, algorithm: $0.algorithm?.name ?? "unknown")
                }
            }
        self.init(envelope.manifest, signatures: signatures)
    }

    /// Creates the summary of a manifest.
    init(_ manifest: Manifest, signatures: [Signature] = []) {
        product = manifest.product.text
        version = manifest.version.text
        hardware = manifest.hardware?.ranges.map { [$0.lowerBound, $0.upperBound] }
        securityCounter = manifest.securityCounter
        requires = manifest.requires?.description
        minimumBattery = manifest.minimumBattery
        source = manifest.source
        imageFormat = manifest.imageFormat.name
        imageSize = manifest.imageSize
        imageSha256 = manifest.imageDigest.description
        created = Date(timeIntervalSince1970: Double(manifest.created)).formatted(.iso8601)
        manifestSha256 = SHA256.digest(of: manifest.bytes).description
        self.signatures = signatures
        let unknown = manifest.unknownFields.map {
            Field(
                type: Hex.encode([UInt8($0.type >> 8), UInt8($0.type & 0xFF)]), critical: $0.isCritical,
                value: Hex.encode($0.value))
        }
        unknownFields = unknown.isEmpty ? nil : unknown
    }

    /// The rows of the summary for the user. Each row has a title and a value.
    var rows: [(String, String)] {
        var rows = [("Product", product), ("Version", version)]
        let revisions = hardware?.map { $0[0] == $0[1] ? "\($0[0])" : "\($0[0])..\($0[1])" }
        rows.append(("Hardware", revisions?.joined(separator: ",") ?? "any revision"))
        rows.append(("Security counter", "\(securityCounter)"))
        if let requires { rows.append(("Requires", "running version \(requires) or later")) }
        if let minimumBattery { rows.append(("Battery", "at least \(minimumBattery) %")) }
        if let source { rows.append(("Source", source)) }
        rows.append(("Created", created))
        rows.append(("Image", "\(imageFormat), \(imageSize) bytes"))
        rows.append(("Image SHA-256", imageSha256))
        rows.append(("Manifest SHA-256", manifestSha256))
        for field in unknownFields ?? [] {
            rows.append(("Unknown field", "0x\(field.type)\(field.critical ? ", critical" : ""): \(field.value)"))
        }
        for signature in signatures {
            rows.append(("Signature", "\(signature.algorithm) by \(signature.keyID)\(signature.verdict)"))
        }
        return rows
    }

    /// The key ids of the signers, separated by commas.
    var signers: String { signatures.map(\.keyID).joined(separator: ", ") }
}

extension BundleSummary.Signature {
    fileprivate var verdict: String {
        if let unchecked { return ", trusted key, NOT CHECKED: \(unchecked)" }
        if let missingPartner { return ", trusted key, valid, but the signature by \(missingPartner) is missing" }
        if outOfScope == true { return ", trusted key, but its scope does not allow this bundle" }
        return switch (trusted, valid) {
        case (nil, _): ""
        case (_, true?): ", trusted key, valid"
        case (_, false?): ", trusted key, INVALID"
        case (_, nil): ", not a trusted key"
        }
    }
}
