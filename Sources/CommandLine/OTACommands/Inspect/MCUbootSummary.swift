import OTAFirmware
import OTASigning

/// The contents of an MCUboot image, and the results of the checks of its digest and its signature.
struct MCUbootSummary: Encodable, Sendable {
    /// A TLV (type, length, value) of the image.
    struct Record: Encodable, Sendable {
        /// The TLV type as 4 hex digits.
        let type: String
        /// The name of the type in imgtool; nil if imgtool has no name for it.
        let name: String?
        /// The value as hex digits.
        let value: String
    }
    /// The signature of the image.
    struct Signature: Encodable, Sendable {
        /// The name of the algorithm in imgtool.
        let algorithm: String
        /// True if the key signed the header, the body and the protected TLVs; false if the key signed the digest of these parts.
        let pure: Bool
        /// The value of the image's KEYHASH TLV, a digest of the signer's public key, as hex digits; nil if the image does not have this
        /// TLV.
        let keyHash: String?
        /// The id of the trusted key that the image names as its signer. Nil if the image does not name a trusted key, or if the scope of
        /// the key excludes MCUboot images.
        let keyID: String?
        /// True if the signature is valid, false if it is invalid; nil if it could not be checked.
        let valid: Bool?
    }
    /// The size of the header in bytes, including its padding.
    let headerSize: UInt16
    /// The size of the body in bytes.
    let bodySize: UInt32
    let loadAddress, flags: UInt32
    let protectedTlvs, tlvs: [Record]
    let signature: Signature?
    /// The checks that passed, as text for the user.
    let checked: [String]

    init(_ image: MCUbootImage, _ report: MCUbootReport) {
        headerSize = image.headerSize
        bodySize = image.bodySize
        loadAddress = image.loadAddress
        flags = image.flags
        protectedTlvs = image.protectedTLVs.map(Record.init)
        tlvs = image.tlvs.map(Record.init)
        signature = report.signature.map {
            Signature(
                algorithm: $0.algorithm, pure: $0.isPure, keyHash: $0.keyHash.map(Hex.encode),
                keyID: $0.keyID?.description, valid: $0.holds)
        }
        checked = report.checked
    }

    /// The rows of the summary for the user. Each row has a title and a value.
    var rows: [(String, String)] {
        var rows = [("Header", "\(headerSize) bytes; body \(bodySize) bytes")]
        if loadAddress != 0 { rows.append(("Load address", "0x" + String(loadAddress, radix: 16))) }
        if flags != 0 { rows.append(("Flags", "0x" + String(flags, radix: 16))) }
        rows += protectedTlvs.map { ("Protected TLV", $0.line) } + tlvs.map { ("TLV", $0.line) }
        if let keyID = signature?.keyID { rows.append(("Key id", "\(keyID), trusted")) }
        return rows + checked.map { ("Checked", $0) }
    }
}

extension MCUbootSummary.Record {
    fileprivate init(_ tlv: MCUbootTLV) {
        type = Hex.encode([UInt8(tlv.type >> 8), UInt8(tlv.type & 0xFF)])
        name = tlv.name
        value = Hex.encode(tlv.value)
    }

    fileprivate var line: String {
        "0x\(type)\(name.map { " " + $0 } ?? ""): " + (value.count > 160 ? value.prefix(160) + "…" : value)
    }
}

extension MCUbootReport {
    /// The checks that passed, as text for the user.
    var checked: [String] {
        var lines: [String] = []
        if let digest, digestHolds == true { lines.append("\(digest) of header, body and protected TLVs: valid") }
        if let signature, signature.holds == true, let keyID = signature.keyID {
            let what = signature.isPure ? "header, body and protected TLVs" : "that digest"
            lines.append("\(signature.algorithm) signature over \(what): valid, by trusted key \(keyID)")
        }
        return lines
    }

    /// Returns the checks that failed or were not possible, and the parts of the file that are not signed, as text for the user.
    func unchecked(of file: MCUbootFile) -> [String] {
        var lines: [String] = []
        if isAmbiguous {
            lines.append(
                "a digest, key or signature TLV is duplicated or misplaced: none of them was checked")
        }
        if file.image.isEncrypted { lines.append("the body is encrypted: the digest was not checked") }
        if let digest, digestHolds == false { lines.append("\(digest) DOES NOT MATCH the image bytes") }
        if digest == nil { lines.append("the image contains no digest") }
        if let line = signatureNote { lines.append(line) }
        let records = unsigned.map { $0.name ?? "0x" + String($0.type, radix: 16) }.joined(separator: ", ")
        if !records.isEmpty { lines.append("TLVs outside the protected area are not signed: \(records)") }
        if !file.image.isBootable { lines.append("the image is marked as not bootable") }
        let rest = file.file.count - file.bytes.count
        if rest > 0 {
            lines.append(
                "\(rest) bytes of slot padding or trailer follow the image: they are not signed and not sent")
        }
        return lines
    }

    private var signatureNote: String? {
        guard let signature else { return "the image is not signed" }
        switch signature.holds {
        case true?: return nil
        case false?: return "the \(signature.algorithm) signature IS INVALID"
        case nil where signature.unsupported != nil:
            return "the \(signature.algorithm) signature was not checked: \(signature.unsupported ?? "")"
        case nil where signature.isOutOfScope:
            let key = signature.ignoredKeyID?.description ?? "named by the image"
            return "signature ignored: the scope of key \(key) does not allow MCUboot images"
        case nil where signature.keyID == nil:
            return "the signature was not checked: the image names no trusted key"
        case nil: return "the signature was not checked"
        }
    }
}
