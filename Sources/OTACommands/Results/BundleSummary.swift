import FoundationEssentials
import OTAFirmware
import OTASigning

/// What a bundle says, for people and for scripts.
struct BundleSummary: Encodable, Sendable {
    struct Signature: Encodable, Sendable {
        let keyID: String
        let algorithm: String
        /// Only where it was verified.
        var trusted, valid: Bool?
        /// True if a trusted key signed whose scope does not cover the bundle; otherwise absent.
        var outOfScope: Bool?
    }
    struct Field: Encodable, Sendable {
        /// Four hex digits.
        let type: String
        let critical: Bool
        /// Hex.
        let value: String
    }
    let product, version: String
    /// Lowest and highest revision, inclusive; absent: any.
    let hardware: [[UInt16]]?
    let securityCounter: UInt32
    let requires: String?
    /// Per cent.
    let minimumBattery: UInt8?
    let source: String?
    let imageFormat: String
    let imageSize: UInt32
    let imageSha256: String
    let created: String
    let manifestSha256: String
    let signatures: [Signature]
    let unknownFields: [Field]?

    /// - Parameter reports: what was found of the signatures, where they were verified.
    init(_ envelope: Envelope, reports: [SignatureReport]? = nil) {
        let manifest = envelope.manifest
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
        manifestSha256 = SHA256.digest(of: envelope.manifestBytes).description
        signatures =
            if let reports {
                reports.map {
                    Signature(
                        keyID: $0.keyID.description, algorithm: $0.algorithm.name, trusted: $0.trusted, valid: $0.valid,
                        outOfScope: $0.isOutOfScope ? true : nil)
                }
            } else {
                envelope.signatures.map {
                    Signature(keyID: $0.keyID.description, algorithm: $0.algorithm.name)
                }
            }
        let unknown = manifest.unknownFields.map {
            Field(
                type: Hex.encode([UInt8($0.type >> 8), UInt8($0.type & 0xFF)]), critical: $0.isCritical,
                value: Hex.encode($0.value))
        }
        unknownFields = unknown.isEmpty ? nil : unknown
    }

    /// A line for each field.
    var rows: [(String, String)] {
        var rows = [("Product", product), ("Version", version)]
        let revisions = hardware?.map { $0[0] == $0[1] ? "\($0[0])" : "\($0[0])..\($0[1])" }
        rows.append(("Hardware", revisions?.joined(separator: ",") ?? "any revision"))
        rows.append(("Security counter", "\(securityCounter)"))
        if let requires { rows.append(("Requires", "\(requires) or later to be running")) }
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

    /// Who signed, for a sentence.
    var signers: String { signatures.map(\.keyID).joined(separator: ", ") }
}

extension BundleSummary.Signature {
    fileprivate var verdict: String {
        if outOfScope == true { return ", trusted, but not for this bundle" }
        return switch (trusted, valid) {
        case (nil, _): ""
        case (_, true?): ", trusted, and it holds"
        case (_, false?): ", trusted, and it DOES NOT HOLD"
        case (_, nil): ", not trusted here"
        }
    }
}

extension BundleSignature.Algorithm {
    var name: String {
        switch self {
        case .ed25519: "ed25519"
        }
    }
}
