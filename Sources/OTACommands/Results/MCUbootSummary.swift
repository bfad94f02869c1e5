import OTAFirmware
import OTASigning

/// What an MCUboot image holds, and what was checked of it.
struct MCUbootSummary: Encodable, Sendable {
    struct Record: Encodable, Sendable {
        /// Four hex digits.
        let type: String
        /// What imgtool calls it.
        let name: String?
        /// Hex.
        let value: String
    }
    struct Signature: Encodable, Sendable {
        /// What imgtool calls it.
        let algorithm: String
        /// It is over the signed bytes and not over their digest.
        let pure: Bool
        /// Hex.
        let keyHash: String?
        /// The trusted key that is named.
        let keyID: String?
        /// Absent where it could not be checked.
        let valid: Bool?
    }
    /// Bytes.
    let headerSize: UInt16
    let bodySize: UInt32
    let loadAddress, flags: UInt32
    let protectedTlvs, tlvs: [Record]
    let signature: Signature?
    /// What holds, for people.
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
    /// What holds, for people.
    var checked: [String] {
        var lines: [String] = []
        if let digest, digestHolds == true { lines.append("its \(digest) is that of header, body and protected TLVs") }
        if let signature, signature.holds == true, let keyID = signature.keyID {
            let what = signature.isPure ? "header, body and protected TLVs" : "that digest"
            lines.append("its \(signature.algorithm) signature over \(what), by the trusted key \(keyID)")
        }
        return lines
    }

    /// What does not hold, or was not checked, for people.
    func unchecked(of file: MCUbootFile) -> [String] {
        var lines: [String] = []
        if isAmbiguous {
            lines.append(
                "it tells a digest, key or signature twice, or where it does not belong: nothing of them was checked")
        }
        if file.image.isEncrypted { lines.append("its body is encrypted: its digest was not checked") }
        if let digest, digestHolds == false { lines.append("its \(digest) IS NOT that of its bytes") }
        if digest == nil { lines.append("it carries no digest") }
        if let line = signatureNote { lines.append(line) }
        let records = unsigned.map { $0.name ?? "0x" + String($0.type, radix: 16) }.joined(separator: ", ")
        if !records.isEmpty { lines.append("nobody signs what lies outside the protected area: \(records)") }
        if !file.image.isBootable { lines.append("it is marked as not bootable") }
        let rest = file.file.count - file.bytes.count
        if rest > 0 {
            lines.append(
                "\(rest) bytes of slot padding or trailer follow the image: nobody signs them, and they are not sent")
        }
        return lines
    }

    private var signatureNote: String? {
        guard let signature else { return "it is not signed" }
        switch signature.holds {
        case true?: return nil
        case false?: return "its \(signature.algorithm) signature DOES NOT HOLD"
        case nil where signature.algorithm != "ED25519":
            return "its \(signature.algorithm) signature was not checked: only Ed25519 can be"
        case nil where signature.isOutOfScope:
            let key = signature.ignoredKeyID?.description ?? "that it names"
            return "signature ignored: the scope of key \(key) does not allow MCUboot images"
        case nil where signature.keyID == nil:
            return "its signature was not checked: no trusted key is the one it names"
        case nil: return "its signature was not checked"
        }
    }
}
