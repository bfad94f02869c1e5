import OTAFirmware
import OTASigning

/// The contents of a Nordic DFU package, and the results of the checks of its digests and signatures.
struct NordicSummary: Encodable, Sendable {
    struct Section: Encodable, Sendable {
        struct Signature: Encodable, Sendable {
            /// `ECDSA P-256` or `unknown`.
            let algorithm: String
            /// The ID of the trusted key that signed the init packet; nil if no trusted key signed it.
            let keyID: String?
        }
        let part, file: String
        let size: Int
        let sha256: String
        /// `sha256` or `crc16`: the digest of the image that the init packet contains.
        let digest: String
        let digestValid: Bool
        /// The version in the init packet; nil if it has none.
        let firmwareVersion: UInt32?
        let hardwareVersion: UInt32?
        let deviceType, deviceRevision: UInt16?
        let softdevices: [UInt32]
        let softdeviceSize, bootloaderSize: UInt32?
        let debug: Bool?
        let bootValidation: [String]?
        /// Nil if the init packet is not signed.
        let signature: Signature?
        /// The properties without a signature, and the properties that otaflash cannot check; nil: each property is checked.
        let unchecked: [String]?
        /// Remarks for the user; nil: no remark.
        let notes: [String]?

        private enum CodingKeys: CodingKey {
            case part, file, size, sha256, digest, digestValid, firmwareVersion, hardwareVersion, deviceType
            case deviceRevision, softdevices, softdeviceSize, bootloaderSize, debug, bootValidation, signature
            case unchecked, notes
        }
    }

    let `protocol`: String
    let sections: [Section]
    /// The properties of the whole package that no signature covers; nil for a package in a bundle.
    let unchecked: [String]?
    fileprivate let title: String

    private enum CodingKeys: CodingKey { case `protocol`, sections, unchecked }

    /// - Parameters:
    ///   - reports: the results of `Verifier.report(on:)` for the package.
    ///   - isInBundle: whether the package is in a bundle. The signatures of the bundle cover all bytes of the package.
    init(_ package: NordicPackage, _ reports: [NordicReport], isInBundle: Bool) {
        `protocol` = package.dfuProtocol.rawValue
        title = package.dfuProtocol.title
        sections = zip(package.sections, reports).map { Section($0, $1, isInBundle: isInBundle) }
        unchecked =
            isInBundle
            ? nil
            : [
                "the combination of the images: only manifest.json, which is not signed, lists them",
                "product: a Nordic DFU package does not name it",
            ]
    }

    /// The text for the row `Container` of the package.
    var container: String { "package for \(title), \(sections.count) image\(sections.count == 1 ? "" : "s")" }

    /// The rows of the summary for the user. Each row has a title and a value.
    var rows: [(String, String)] { sections.flatMap(\.rows) + (unchecked ?? []).map { ("Not checked", $0) } }

    /// The sentences that report a verified package.
    ///
    /// - Parameter file: the name of the package.
    func sentences(of file: String) -> [String] {
        let lines = sections.flatMap { (section: Section) -> [String] in
            let signer = section.signature?.keyID.map { ", signed by \($0)" } ?? ""
            return [
                "\(section.file) in \(file) is verified: \(title), \(section.part), \(section.size) bytes\(signer).",
                "  Checked: \(section.checkedDigest)",
            ]
                + (section.signature?.keyID == nil ? [] : ["  Checked: signature of the init packet"])
                + section.remarks
        }
        return lines + (unchecked ?? []).map { "  Not checked: \($0)" }
    }

    /// The sentences that report the package in a verified bundle.
    var sentencesInBundle: [String] {
        ["It contains a \(container); its digests are correct."]
            + sections.flatMap { (section: Section) -> [String] in
                ["\(section.file): \(title), \(section.part), \(section.size) bytes."] + section.remarks
            }
    }

    /// The warnings for a package that must not be released; empty for other packages.
    var warnings: [String] {
        sections.filter { $0.debug == true }.map {
            "the init packet of \($0.file) is for tests: the bootloader skips the checks of versions"
        }
    }
}

extension NordicSummary.Section {
    fileprivate init(_ section: NordicSection, _ report: NordicReport, isInBundle: Bool) {
        part = section.part.rawValue
        file = section.name
        size = section.image.count
        let checkedDigest = report.digestHolds ? section.digest : nil
        sha256 = (checkedDigest ?? SHA256.digest(of: section.image)).description
        digest = section.digest == nil ? "crc16" : "sha256"
        digestValid = report.digestHolds
        softdeviceSize = section.bothSizes?.softDevice
        bootloaderSize = section.bothSizes?.bootloader
        var unchecked: [String] = []
        var notes: [String] = []
        switch section.signature {
        case nil:
            signature = nil
            notes.append("the init packet is not signed")
            if !isInBundle {
                unchecked.append("digest, version, hardware and SoftDevices: the init packet is not signed")
            }
        case .unsupported?: signature = Signature(algorithm: "unknown", keyID: nil)
        case .ecdsaP256?: signature = Signature(algorithm: "ECDSA P-256", keyID: report.keyID?.description)
        }
        if report.isOutOfScope { notes.append("the scope of the key does not allow Nordic DFU packages") }
        switch section.initPacket {
        case .legacy(let packet):
            firmwareVersion = packet.applicationVersion == .max ? nil : packet.applicationVersion
            hardwareVersion = nil
            (deviceType, deviceRevision) = (packet.deviceType, packet.deviceRevision)
            softdevices = packet.softDevices.map { UInt32($0) }
            (debug, bootValidation) = (nil, nil)
            if !isInBundle {
                unchecked.append("the part (\(section.part.title)): only manifest.json, which is not signed, names it")
            }
            if section.bothSizes != nil, !isInBundle {
                unchecked.append(
                    "the sizes of SoftDevice and bootloader: they are from manifest.json, which is not signed")
            }
        case .secure(let packet):
            // nrfutil writes this number into packages without a version, such as that of a SoftDevice.
            firmwareVersion = packet.firmwareVersion == .max ? nil : packet.firmwareVersion
            hardwareVersion = packet.hardwareVersion
            (deviceType, deviceRevision) = (nil, nil)
            softdevices = packet.softDevices
            debug = packet.isDebug
            bootValidation = packet.bootValidation.map { "\($0)" }
            if packet.isDebug { notes.append("debug: the bootloader skips the checks of versions") }
            if packet.type == .externalApplication {
                notes.append("the application is for another chip, to which the device passes it on")
            }
            if packet.bootValidation.contains(.ecdsaP256) {
                unchecked.append("the signature of the image for each start (boot validation)")
            }
            if !packet.unknownFields.isEmpty {
                let list = packet.unknownFields.map(\.description).joined(separator: ", ")
                unchecked.append("fields of the init packet that otaflash does not know: \(list)")
            }
        }
        self.unchecked = unchecked.isEmpty ? nil : unchecked
        self.notes = notes.isEmpty ? nil : notes
    }

    /// The lines of `verify` with the unchecked properties and the remarks.
    fileprivate var remarks: [String] {
        (unchecked ?? []).map { "  Not checked: \($0)" } + (notes ?? []).map { "  Note: \($0)" }
    }

    fileprivate var checkedDigest: String {
        "\(digest == "crc16" ? "CRC-16" : "SHA-256") of the image in the init packet"
    }

    fileprivate var rows: [(String, String)] {
        var rows = [("Part", "\(part), \(file), \(size) bytes"), ("Part SHA-256", sha256)]
        if let softdeviceSize, let bootloaderSize {
            rows.append(("Sizes", "SoftDevice \(softdeviceSize) bytes, bootloader \(bootloaderSize) bytes"))
        }
        rows.append(("Version", firmwareVersion.map(\.description) ?? "none"))
        if let deviceType, let deviceRevision {
            rows.append(("Device", "type 0x\(String(deviceType, radix: 16)), revision \(deviceRevision)"))
        } else {
            rows.append(("Hardware", hardwareVersion.map(\.description) ?? "any"))
        }
        let ids = softdevices.map { $0 == 0xFFFE ? "any" : "0x" + String($0, radix: 16) }
        rows.append(("SoftDevices", ids.isEmpty ? "none" : ids.joined(separator: ", ")))
        if let bootValidation, !bootValidation.isEmpty {
            rows.append(("Boot validation", bootValidation.joined(separator: ", ")))
        }
        rows.append(("Digest", "\(checkedDigest): \(digestValid ? "valid" : "DOES NOT MATCH the image")"))
        if let signature {
            let key = signature.keyID.map { "by \($0), trusted key, valid" } ?? "not by a trusted key"
            rows.append(("Signature", "\(signature.algorithm) \(key)"))
        }
        for property in unchecked ?? [] { rows.append(("Not checked", property)) }
        for note in notes ?? [] { rows.append(("Note", note)) }
        return rows
    }
}
